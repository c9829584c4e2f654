"""Who is who, who may do what, and how much: pure, without IO."""
