"""What several APIs share. Each API itself is a module of kompat.handlers."""
