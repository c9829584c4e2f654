"""Message ids: a record whose id was seen within the window is not appended again."""
