//! What several handlers share.
