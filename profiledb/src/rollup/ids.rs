//! Ids of an input where what refers to them goes.

/// What the ids of an input are where it goes.
pub(crate) trait Ids {
    /// An image.
    fn image(&mut self, id: i64) -> Result<i64, crate::Error>;
    /// A process, for a roll-up.
    fn process(&mut self, id: i64, target: i64) -> Result<i64, crate::Error>;
    /// A parameter.
    fn parameter(&mut self, id: i64) -> Result<i64, crate::Error>;
}
