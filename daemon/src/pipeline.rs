//! The way of a sample: merged by time, placed, accepted, interpreted, made events.

pub(crate) mod blocks;
pub(crate) mod bounce;
pub(crate) mod collector;
pub(crate) mod entries;
pub(crate) mod handler_updates;
pub(crate) mod lot;
pub(crate) mod merge;
pub(crate) mod raw;
pub(crate) mod stage;
pub(crate) mod steps;
