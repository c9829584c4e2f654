"""The stories of single records: which records are traced, what happens to them, and how one looks that up."""
