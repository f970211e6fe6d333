"""What a person meets: the command line, pages, the planner in a browser, completion."""
