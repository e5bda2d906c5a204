//! How replies are printed.
