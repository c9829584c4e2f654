"""Pure: no clock, no IO."""
