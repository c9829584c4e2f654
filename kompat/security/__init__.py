"""Authentication, authorization and quotas: pure, without IO."""
