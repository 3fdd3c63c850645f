//! hotlist
