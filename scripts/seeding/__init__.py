"""What others published -> the claims that come with the package."""
