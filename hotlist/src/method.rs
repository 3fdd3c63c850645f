//! How lists count, why their estimates are unbiased, how sure they are, and what they cost.
//!
//! # Method
//! While at most N distinct values have come, all counts are exact. When one more comes, the
//! list's p falls: p is the probability with which an event of a value that is *not* in the list
//! is counted and takes a place in it. Two ways of counting an event of a value that *is* in the
//! list take turns. **Counting samples** count it surely, which is precise but looks into the list
//! at every event. **Concise samples** count it with probability p like any other, so that most
//! events are passed over without a look. SatCount goes up when a value is found and down when
//! not; at MaxEnd concise samples take over, at MinEnd counting samples do.
//!
//! # Estimates, and why they are unbiased
//! A tuple keeps B, its events counted with probability p, and D, its events counted surely. The
//! estimate of the number of events of the value is
//!
//! > X = B/p + D, and X = 0 for a value that is not in the list.
//!
//! (A tuple of counting samples alone has B = 1, which makes this 1/p + C - 1 with C = B + D; one
//! of concise samples alone has D = 0 and C/p.) Let n be the true number. X - n is a martingale:
//! no step changes its expectation, whatever came before, because each step draws coins that are
//! independent of the past.
//!
//! * An event counted surely adds 1 to D and so to X, and 1 to n.
//! * An event counted with probability p (concise samples, or a value not in the list) adds 1/p
//!   to X with probability p: 1 in expectation, and 1 to n.
//! * When p falls to q = p/f, [`Eviction::ByEvent`](crate::Eviction::ByEvent) keeps each event of B with probability 1/f.
//!   If any is left, X becomes B'/q + D, and summed over all outcomes E\[B'\]/q = (B/f)/(p/f) =
//!   B/p. If none is left, D gives up its events one by one, each becoming the new B = 1 with
//!   probability q, until one does. Of d events the t-th is the first accepted with probability
//!   q(1-q)^(t-1), and leaves 1/q + d - t. The sum over t is d: for d = 1 it is q/q = 1, and from
//!   d to d + 1 each of the terms up to d grows by its probability and the last adds
//!   q(1-q)^d/q, together 1 - (1-q)^d + (1-q)^d = 1. So D is worth d whether it is kept or put
//!   at stake.
//! * [`Eviction::ByWeight`](crate::Eviction::ByWeight) does, for a tuple with B = 1, what leaves X alone: where X >= 1/q it
//!   keeps X, as B = 1 and D = X - 1/q (a fraction left over becomes an event with that
//!   probability); else X becomes 1/q with probability Xq, and 0 else. Either way the expectation
//!   is X at sight, and only values below the threshold add to the spread.
//! * Switching methods and closing one's eyes to events change neither X nor n.
//!
//! When p falls, how often, and which method is in use may depend on all that came before: a
//! martingale does not mind. It would mind victims chosen by their age or count, which is why S
//! is for reporting alone, and flips for D after an event of B was kept, which would take some
//! percent off the most frequent value.
//!
//! Looking ahead is as good as flipping: the run of refusals before the next acceptance is drawn
//! as a whole ([`Coins`](crate::Coins)). p changes only at an acceptance, when no run is open.
//!
//! # S
//! S is the estimated time of the first event that a tuple still counts, in the caller's unit of
//! time and not in events, so that lists of different streams can be merged.
//! [`Tuple::trend`](crate::Tuple::trend) tells from it whether a value comes more or less often than it did.
//!
//! # Variance
//! The estimate of a value moves by steps whose variances add up, as in any martingale. Each tuple
//! has an unbiased estimate V of that sum, which is 0 for a value that is not in the list.
//!
//! * A value that enters at p waited for a geometric number of events: V = (1 - p) / p^2. Later
//!   events are counted surely and add nothing.
//! * By event, a list is as if all had been counted with today's p: V = B (1 - p) / p^2.
//! * By weight, a tuple with X >= 1/q keeps its V when p falls to q. One that was at stake and is
//!   left has V' = (V + X (1/q - X)) / (Xq): it stands for those that went. So the V of a frequent
//!   value is that of the p at which it entered, not of today's.
//!
//! In a simulation (`tests/variance.rs`: constant, two-valued, Zipf 1.0, 1.2 and 1.5, uniform,
//! phases; the eight most frequent values of each) the mean of V over the true variance was 0.95
//! to 1.07 for sums of precise lists, and 0.8 to 1.25 but for chance for single ones and for
//! merged ones. Eviction by weight with concise samples forgets up to half of it.
//! V has eight significant bits.
//!
//! # Dependence
//! Events of one window, and of windows that follow each other, are not independent draws. Lists of
//! counting samples count the [`Pairs`](crate::Pairs) that their events make, and [`Draws`](crate::Draws) says what comes of
//! it for the interval of a share, with the sources of the method. Coverage by simulation
//! (`tests/draws.rs`; distances between windows vary by an eighth, 8,000 of them, one to eight
//! events a window; 300 recordings each): 93 to 98 % for values that are drawn anew at each window
//! and for phases of 30 to 1,500 windows where half or a tenth of the windows are accepted; 97 to
//! 99 % for phases of 3. Where all are accepted, phases of up to some 300 windows are covered by
//! 98 to 100 %: there the interval is too wide, by a factor of up to 2.4.
//!
//! # Merging
//! A [`Sum`](crate::Sum) adds up the estimates of many lists value by value. It is as unbiased as they are,
//! its variances are the sums of theirs, and no list loses by another's p. Reports read so. When a
//! sum has twice as many values as it is told to keep, it keeps so many, by the rule below: what
//! comes often is not at stake.
//!
//! [`Hotlist::merge`](crate::Hotlist::merge) makes a list of N tuples of two, for a stream that
//! goes on. By weight it adds the estimates and finds the threshold at which N of them stay: those
//! above it stay as they are, of the others each becomes the threshold with probability X over
//! threshold. That is the unbiased reduction of least total variance (VarOpt; the sources are in
//! `reduce.rs`). By event it thins both lists to the smaller p, adds B to B and D to D, and thins
//! on until N tuples are left. Merging is commutative and associative in what it estimates, though
//! not coin by coin.
//!
//! Error of the five largest shares of a day, 1,440 lists of 1,000 events each, in points (root of
//! the mean square, `tests/sums.rs`; 10,000 values, 1,000 for uniform):
//!
//! | | Zipf(1.0) | Zipf(1.2) | Zipf(1.5) | uniform | phases |
//! |---|---|---|---|---|---|
//! | sum of all values | 0.059 | 0.044 | 0.006 | 0.023 | 0.048 |
//! | sum that keeps 256 | 0.059 | 0.044 | 0.006 | 0.159 | 0.048 |
//! | sum that keeps 64 | 0.059 | 0.044 | 0.006 | 0.108 | 0.048 |
//! | list of 16 that takes in one after the other | 1.9 | 0.94 | 0.005 | 0.11 | 0.041 |
//!
//! # Figures
//! "By weight" is `Config::default().method(Method::Counting).eviction(Eviction::ByWeight)`.
//!
//! Bias: `cargo run --release -p hotlist --example statistics`, 10,000 runs of 10,000 events of
//! each stream (constant; 70 % and 30 %; Zipf over 10,000 values; 1,000 values as likely; Zipf(1.5)
//! whose common values are others after 3/5 and again after 4/5). All errors are in percent of
//! the stream's length, the bias with its standard error; "top listed first" is over the runs
//! whose most frequent value has more than a fifth of the stream.
//!
//! | stream | bias of the top value | its error (RMS) | largest bias of any value | top listed first | mean 1/p | concise at the end |
//! |---|---|---|---|---|---|---|
//! | constant | +0.000 ± 0.000 | 0.00 | 0.000 | 100.00 % of 10000 | 1.0 | 100 % |
//! | two-valued | +0.000 ± 0.000 | 0.00 | 0.000 | 100.00 % of 10000 | 1.0 | 100 % |
//! | Zipf(1.0) | -0.056 ± 0.054 | 5.39 | 0.056 | never > 20 % | 575.1 | 0 % |
//! | Zipf(1.5) | +0.066 ± 0.097 | 9.68 | 0.066 | 99.00 % of 10000 | 252.2 | 100 % |
//! | uniform | -0.002 ± 0.012 | 1.22 | 0.026 | never > 20 % | 641.9 | 0 % |
//! | phases | -0.024 ± 0.092 | 9.23 | 0.036 | 87.43 % of 10000 | 384.6 | 100 % |
//! | constant, counting, by weight | +0.000 ± 0.000 | 0.00 | 0.000 | 100.00 % of 10000 | 1.0 | 0 % |
//! | two-valued, counting, by weight | +0.000 ± 0.000 | 0.00 | 0.000 | 100.00 % of 10000 | 1.0 | 0 % |
//! | Zipf(1.0), counting, by weight | -0.003 ± 0.010 | 1.04 | 0.051 | never > 20 % | 607.4 | 0 % |
//! | Zipf(1.5), counting, by weight | -0.000 ± 0.000 | 0.04 | 0.020 | 100.00 % of 10000 | 285.7 | 0 % |
//! | uniform, counting, by weight | -0.002 ± 0.012 | 1.19 | 0.028 | never > 20 % | 646.6 | 0 % |
//! | phases, counting, by weight | +0.000 ± 0.000 | 0.04 | 0.062 | 100.00 % of 10000 | 435.2 | 0 % |
//!
//! No bias is told from zero. The spread is another matter: with concise samples a list of 16
//! tuples stands on some forty counted events, so its largest shares are right to about a quarter
//! of themselves once there are many more values than tuples, and
//! [`Tuple::interval`](crate::Tuple::interval) says so. Where that is too little, counting by
//! weight keeps the shares of frequent values to a fraction of a percent, at some ten nanoseconds
//! an event. A value of n events is missing with a probability of about e^(-np): one of 3/p events
//! in one case of twenty.
//!
//! Bytes, error and time beside others: `cargo bench -p hotlist`, streams of 100,000 events;
//! errors are the mean over the five most frequent values, in points of share, over 20 streams.
//!
//! | | bytes | constant | two-valued | Zipf(1.0) | Zipf(1.5) | uniform | phases |
//! |---|---|---|---|---|---|---|---|
//! | hotlist | 656 | 0.00 | 0.00 | 4.15 | 4.17 | 0.27 | 3.76 |
//! | hotlist, counting, by weight | 656 | 0.00 | 0.00 | 2.60 | 0.15 | 0.20 | 0.79 |
//! | exact hash map | 69696 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 |
//! | Space-Saving, 1 counters | 564 | 0.00 | 36.02 | 8.11 | 20.67 | 0.13 | 17.84 |
//! | Space-Saving, 16 counters | 3328 | 0.00 | 0.00 | 1.94 | 0.00 | 0.19 | 0.89 |
//! | Misra-Gries, 8 places | 344 | 0.00 | 0.00 | 4.76 | 3.35 | 0.13 | 6.29 |
//! | Misra-Gries, 16 places | 552 | 0.00 | 0.00 | 2.56 | 0.51 | 0.13 | 2.41 |
//! | Space-Saving array, 23 counters | 376 | 0.00 | 0.00 | 0.92 | 0.00 | 0.17 | 0.52 |
//!
//! Nanoseconds per update, the least of 100 runs, on a virtual machine of 2 CPUs:
//!
//! | | constant | two-valued | Zipf(1.0) | Zipf(1.5) | uniform | phases |
//! |---|---|---|---|---|---|---|
//! | hotlist | 2.1 | 5.3 | 6.7 | 1.6 | 5.8 | 1.6 |
//! | hotlist, counting, by weight | 2.1 | 5.7 | 7.2 | 11.3 | 6.3 | 9.8 |
//! | exact hash map | 9.2 | 9.4 | 11.7 | 10.1 | 9.7 | 10.3 |
//! | Space-Saving, 1 counters | 18.8 | 30.0 | 32.8 | 32.5 | 33.3 | 32.9 |
//! | Space-Saving, 16 counters | 18.9 | 23.8 | 31.7 | 33.3 | 29.9 | 31.5 |
//! | Misra-Gries, 8 places | 4.4 | 9.6 | 22.9 | 22.0 | 19.4 | 21.8 |
//! | Misra-Gries, 16 places | 4.5 | 9.7 | 27.2 | 19.6 | 22.3 | 20.0 |
//! | Space-Saving array, 23 counters | 0.6 | 2.8 | 20.8 | 12.3 | 23.9 | 12.5 |
//!
//! The last line is the hardest to beat: an array of value and count without an index. It shows
//! what being unbiased costs, as Space-Saving never estimates too low and for rare values
//! far too high, and its lists cannot be merged without adding up what they are too high by.
//!
//! # Limits
//! B and D have 32 bits. When one comes to its end, the list thins itself further and turns that D
//! into B at p, by the same rules and at a relative error of about 1/sqrt(2^32 p): 10^-5 while p is
//! near one, a percent at a p of 10^-6. So counts are exact up to 2^32 - 2 events a value.
