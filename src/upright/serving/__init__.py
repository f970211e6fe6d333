"""One engine alive: launched, fetched for, checked, monitored, asked, diagnosed."""
