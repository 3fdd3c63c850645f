//! The two published examples of the methods, step by step: every hotlist and every p.
//!
//! Both offer the same 32 values to a list with N = 3 and f = 8/7, once with each method. The
//! coins are scripted (`+`: the event enters or stays, `-`: it is refused or evicted) and fall
//! into the code that runs in production. A script holds no flip too few and none too many,
//! which pins when a coin is flipped at all.
//!
//! Where an event makes p fall, the tables also show the list after each round of evictions,
//! with N + 1 tuples. Such a row is checked by a run of its own, in which the newcomer loses its
//! last flip of that round, so that the update ends there and all the other tuples can be seen.

use hotlist::{Coins, Config, Hotlist, Method, Scripted};

type List = &'static [(u64, u64)];
/// The value offered, the flips it takes, the list afterwards, and p to eight digits. A `/` in
/// the flips begins a round of evictions.
type Step = (u64, &'static str, List, f64);
/// After which round of which event (from 0): the tuples but the newcomer, and p.
type Round = (usize, usize, List, f64);

fn empty(method: Method) -> Hotlist {
    Hotlist::new(&Config::new(3, 8.0 / 7.0, 0, 50).unwrap().method(method))
}

fn offer(list: &mut Hotlist, coins: &mut impl Coins, steps: &[Step]) {
    for (time, &(value, _, wanted, p)) in (0..).zip(steps) {
        list.update(value, time, coins);
        compare(list, wanted, p, &format!("event {time}, value {value}"));
    }
}

fn compare(list: &Hotlist, wanted: List, p: f64, after: &str) {
    let found: Vec<_> = list
        .tuples()
        .map(|t| (t.value, t.counted + t.certain))
        .collect();
    assert_eq!(found, wanted, "after {after}");
    assert!(
        (list.p() - p).abs() < 5e-9,
        "after {after}: p is {} for {p}",
        list.p()
    );
}

fn replay(method: Method, steps: &[Step], rounds: &[Round]) -> Hotlist {
    let script: String = steps.iter().map(|step| step.1).collect();
    let mut coins = Scripted::new(&script);
    let mut list = empty(method);
    offer(&mut list, &mut coins, steps);
    assert!(coins.used_up(), "flips are left over, or were missing");

    for &(event, round, wanted, p) in rounds {
        let mut script: String = steps[..event].iter().map(|step| step.1).collect();
        let of_rounds: Vec<_> = steps[event].1.split('/').take(round + 1).collect();
        script.push_str(
            of_rounds
                .join("/")
                .trim_end()
                .strip_suffix('+')
                .expect("the newcomer stays"),
        );
        script.push('-');
        let mut coins = Scripted::new(&script);
        let mut list = empty(method);
        offer(&mut list, &mut coins, &steps[..event]);
        list.update(steps[event].0, 99, &mut coins);
        compare(&list, wanted, p, &format!("round {round} of event {event}"));
        assert!(coins.used_up(), "flips are left over, or were missing");
    }
    list
}

/// Table 1: concise samples.
#[test]
fn concise_samples() {
    let (p1, p2, p3) = (0.669_921_88, 0.448_795_32, 0.392_695_9);
    let list = replay(
        Method::Concise,
        &[
            (0, "", &[(0, 1)], 1.0),
            (1, "", &[(0, 1), (1, 1)], 1.0),
            (0, "", &[(0, 2), (1, 1)], 1.0),
            (2, "", &[(0, 2), (1, 1), (2, 1)], 1.0),
            (0, "", &[(0, 3), (1, 1), (2, 1)], 1.0),
            (1, "", &[(0, 3), (1, 2), (2, 1)], 1.0),
            (0, "", &[(0, 4), (1, 2), (2, 1)], 1.0),
            // Three rounds: nothing goes; one of the zeros; one of the ones, and the two.
            (
                3,
                "/ ++++ ++ + + / ++-+ ++ + + / +++ +- - +",
                &[(0, 3), (1, 1), (3, 1)],
                p1,
            ),
            (0, "+", &[(0, 4), (1, 1), (3, 1)], p1),
            (1, "+", &[(0, 4), (1, 2), (3, 1)], p1),
            (0, "+", &[(0, 5), (1, 2), (3, 1)], p1),
            // Three rounds: nothing; nothing; one of the zeros, and the newcomer itself.
            (
                2,
                "+ / +++++ ++ + + / +++++ ++ + + / -++++ ++ + -",
                &[(0, 4), (1, 2), (3, 1)],
                p2,
            ),
            (0, "-", &[(0, 4), (1, 2), (3, 1)], p2),
            (1, "-", &[(0, 4), (1, 2), (3, 1)], p2),
            (0, "-", &[(0, 4), (1, 2), (3, 1)], p2),
            (4, "-", &[(0, 4), (1, 2), (3, 1)], p2),
            (0, "-", &[(0, 4), (1, 2), (3, 1)], p2),
            (1, "-", &[(0, 4), (1, 2), (3, 1)], p2),
            (0, "+", &[(0, 5), (1, 2), (3, 1)], p2),
            // One round takes the three and the newcomer.
            (2, "+ / +++++ ++ - -", &[(0, 5), (1, 2)], p3),
            (0, "-", &[(0, 5), (1, 2)], p3),
            (1, "+", &[(0, 5), (1, 3)], p3),
            (0, "+", &[(0, 6), (1, 3)], p3),
            (3, "+", &[(0, 6), (1, 3), (3, 1)], p3),
            (0, "-", &[(0, 6), (1, 3), (3, 1)], p3),
            (1, "+", &[(0, 6), (1, 4), (3, 1)], p3),
            (0, "-", &[(0, 6), (1, 4), (3, 1)], p3),
            (2, "-", &[(0, 6), (1, 4), (3, 1)], p3),
            (0, "+", &[(0, 7), (1, 4), (3, 1)], p3),
            (1, "-", &[(0, 7), (1, 4), (3, 1)], p3),
            (0, "+", &[(0, 8), (1, 4), (3, 1)], p3),
            (5, "-", &[(0, 8), (1, 4), (3, 1)], p3),
        ],
        &[
            (7, 1, &[(0, 4), (1, 2), (2, 1)], 0.875),
            (7, 2, &[(0, 3), (1, 2), (2, 1)], 0.765_625),
            (7, 3, &[(0, 3), (1, 1)], p1),
            (11, 1, &[(0, 5), (1, 2), (3, 1)], 0.586_181_64),
            (11, 2, &[(0, 5), (1, 2), (3, 1)], 0.512_908_94),
        ],
    );
    // "About twenty", "about ten", "two to three".
    let estimates: Vec<_> = list.tuples().map(|t| t.estimate().round()).collect();
    assert_eq!(estimates, [20.0, 10.0, 3.0]);
    assert_eq!(list.events(), 32);
}

/// Table 2: counting samples.
#[test]
fn counting_samples() {
    let (p1, p2, p3) = (0.875, 0.765_625, 0.669_921_88);
    let list = replay(
        Method::Counting,
        &[
            (0, "", &[(0, 1)], 1.0),
            (1, "", &[(0, 1), (1, 1)], 1.0),
            (0, "", &[(0, 2), (1, 1)], 1.0),
            (2, "", &[(0, 2), (1, 1), (2, 1)], 1.0),
            (0, "", &[(0, 3), (1, 1), (2, 1)], 1.0),
            (1, "", &[(0, 3), (1, 2), (2, 1)], 1.0),
            (0, "", &[(0, 4), (1, 2), (2, 1)], 1.0),
            // All four lose their first event; of zero and one the next takes its place.
            (3, "/ -+ -+ - -", &[(0, 3), (1, 1)], p1),
            (0, "", &[(0, 4), (1, 1)], p1),
            (1, "", &[(0, 4), (1, 2)], p1),
            (0, "", &[(0, 5), (1, 2)], p1),
            (2, "-", &[(0, 5), (1, 2)], p1),
            (0, "", &[(0, 6), (1, 2)], p1),
            (1, "", &[(0, 6), (1, 3)], p1),
            (0, "", &[(0, 7), (1, 3)], p1),
            (4, "+", &[(0, 7), (1, 3), (4, 1)], p1),
            (0, "", &[(0, 8), (1, 3), (4, 1)], p1),
            (1, "", &[(0, 8), (1, 4), (4, 1)], p1),
            (0, "", &[(0, 9), (1, 4), (4, 1)], p1),
            (2, "-", &[(0, 9), (1, 4), (4, 1)], p1),
            (0, "", &[(0, 10), (1, 4), (4, 1)], p1),
            (1, "", &[(0, 10), (1, 5), (4, 1)], p1),
            (0, "", &[(0, 11), (1, 5), (4, 1)], p1),
            (3, "+ / -+ -+ - -", &[(0, 10), (1, 4)], p2),
            (0, "", &[(0, 11), (1, 4)], p2),
            (1, "", &[(0, 11), (1, 5)], p2),
            (0, "", &[(0, 12), (1, 5)], p2),
            (2, "+", &[(0, 12), (1, 5), (2, 1)], p2),
            (0, "", &[(0, 13), (1, 5), (2, 1)], p2),
            (1, "", &[(0, 13), (1, 6), (2, 1)], p2),
            (0, "", &[(0, 14), (1, 6), (2, 1)], p2),
            // Zero loses three in a row, one two.
            (5, "+ / ---+ --+ - -", &[(0, 11), (1, 4)], p3),
        ],
        // Every fall of p is one round.
        &[],
    );
    // 1/p + C - 1.
    let estimates: Vec<_> = list
        .tuples()
        .map(|t| (t.estimate() * 10.0).round())
        .collect();
    assert_eq!(estimates, [115.0, 45.0]);
    assert_eq!(list.events(), 32);
}
