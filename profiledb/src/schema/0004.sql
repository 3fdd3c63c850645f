-- What branches and calls weigh. A window counts by its interval, and one that began behind a stall
-- counts in part: `taken`, `not_taken`, `unknown` and `calls` say how often windows came by, their
-- weights what shares are made of. `squares` is the sum, over windows, of the square of what a
-- window's known events weigh together: the square of all weights over it is the number of windows
-- of one weight that would tell as much. NULL stands for not known; what older programs wrote is
-- so, and each event weighs 1 there.
--
-- Hotlists count by the interval, too: a window whose interval is longer than the mean may count
-- twice in `reached`, `unknown` and `windows`, and its values in the tuples.

ALTER TABLE branch ADD COLUMN taken_weight REAL;
ALTER TABLE branch ADD COLUMN not_taken_weight REAL;
ALTER TABLE branch ADD COLUMN unknown_weight REAL;
ALTER TABLE branch ADD COLUMN squares REAL;

ALTER TABLE call ADD COLUMN weight REAL;
ALTER TABLE call ADD COLUMN squares REAL;
