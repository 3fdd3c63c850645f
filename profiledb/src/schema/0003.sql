-- What tells how sure a share is: see `Tuple::variance` and `Draws` of the hotlist crate. NULL
-- stands for not known; what older programs wrote is so.

-- Sums over the windows of a list's events m: of m (m - 1), and of m times the m of the window
-- before.
ALTER TABLE hotlist ADD COLUMN pairs_within INTEGER;
ALTER TABLE hotlist ADD COLUMN pairs_across INTEGER;
-- How far its windows came at even distances: 0 to 1.
ALTER TABLE hotlist ADD COLUMN even REAL;

-- The same of the events of a value, since it entered the list.
ALTER TABLE tuple ADD COLUMN pairs_within INTEGER;
ALTER TABLE tuple ADD COLUMN pairs_across INTEGER;
-- Estimated variance of the estimate; NULL where counted and p tell it:
-- counted * (1 - p) / (p * p).
ALTER TABLE tuple ADD COLUMN variance REAL;
