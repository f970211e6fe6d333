"""Files -> Model: headers and configurations read, sizes derived."""
