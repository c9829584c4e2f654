"""What the tests share: broker processes, clients behind one face, raw requests."""
