//! Aggregations from many writers against one pass, and in print.

use hotlist::aggregate::{
    AggregateFunction, Aggregation, Buffer, Linear, LogLinear, Snapshot, Table,
};
use proptest::prelude::*;

fn functions() -> Vec<AggregateFunction> {
    vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Stddev,
        AggregateFunction::Quantize,
        AggregateFunction::Lquantize(Linear::new(-50, 100, 10).unwrap()),
        AggregateFunction::Llquantize(LogLinear::new(10, 0, 3, 20).unwrap()),
    ]
}

/// A table of all functions, whose ids are their places, with keys of one word.
fn table() -> Table {
    let aggregations = (0..).zip(functions()).map(|(id, function)| Aggregation {
        id,
        name: format!("a{id}"),
        key_words: 1,
        function,
    });
    Table::new(aggregations, 1000).unwrap()
}

/// Puts events (CPU, key, value) through one buffer per CPU, which are taken now and then.
fn collected(events: &[(usize, u64, i64)], take_every: usize) -> Table {
    let mut buffers = vec![Buffer::new(1 << 14); 4];
    let (mut table, mut snapshot) = (table(), Snapshot::default());
    for (at, &(cpu, key, value)) in events.iter().enumerate() {
        for (id, function) in (0..).zip(functions()) {
            assert!(buffers[cpu].update(id, &function, &[key], value));
        }
        if at % take_every == 0 {
            buffers[cpu].copy_to(&mut snapshot);
            buffers[cpu].clear();
            table.add(&snapshot);
        }
    }
    for buffer in &buffers {
        buffer.copy_to(&mut snapshot);
        table.add(&snapshot);
    }
    table
}

fn everything(table: &Table) -> Vec<(u32, Vec<u64>, Vec<u64>)> {
    let of = |id| {
        table
            .entries(id)
            .map(move |(key, data)| (id, key.to_vec(), data.to_vec()))
    };
    (0..functions().len() as u32).flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any split of the events over CPUs and snapshots, in any order, gives what one pass gives.
    #[test]
    fn any_split_and_order(
        events in prop::collection::vec(
            (0..4_usize, 0..5_u64, prop_oneof![-200..2000_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]),
            0..60,
        ),
        take_every in 1..20_usize,
        order in any::<prop::sample::Index>(),
    ) {
        let mut one_pass = events.clone();
        for event in &mut one_pass {
            event.0 = 0;
        }
        let mut rotated = events;
        if !rotated.is_empty() {
            let by = order.index(rotated.len());
            rotated.rotate_left(by);
            rotated[by / 2..].reverse();
        }
        let (one, many) = (collected(&one_pass, usize::MAX), collected(&rotated, take_every));
        prop_assert_eq!(everything(&one), everything(&many));
        prop_assert_eq!((many.drops(), many.foreign()), (0, 0));
    }
}

/// A table that is full, or is given ids it does not know, counts what it leaves out.
#[test]
fn left_out() {
    let count = |id, key_words| Aggregation {
        id,
        name: "n".into(),
        key_words,
        function: AggregateFunction::Count,
    };
    assert!(Table::new([count(1, 1), count(1, 2)], 10).is_err());
    let mut table = Table::new([count(1, 1), count(2, 2)], 2).unwrap();
    let mut buffer = Buffer::new(1000);
    for key in 0..5 {
        buffer.update(1, &AggregateFunction::Count, &[key], 0);
    }
    buffer.update(2, &AggregateFunction::Count, &[1], 0);
    buffer.update(1, &AggregateFunction::Sum, &[], 0);
    buffer.update(3, &AggregateFunction::Count, &[1], 0);
    let mut snapshot = Snapshot::default();
    buffer.copy_to(&mut snapshot);
    table.add(&snapshot);
    table.add(&snapshot);
    assert_eq!((table.drops(), table.foreign()), (2 * 3, 2 * 3));
    assert_eq!(
        table
            .entries(1)
            .map(|(_, data)| data[0])
            .collect::<Vec<_>>(),
        [2, 2]
    );
}

fn printed(id: u32, values: &[i64]) -> String {
    let events: Vec<_> = values.iter().map(|&value| (0, 7, value)).collect();
    let mut text = String::new();
    let name = |key: &[u64]| format!("key {}", key[0]);
    collected(&events, 3).write(&mut text, id, name).unwrap();
    text
}

/// Numbers stand behind their keys, lowest first.
#[test]
fn printed_numbers() {
    let mut text = String::new();
    let events = [(0, 1, 5), (0, 2, 3), (1, 2, -1), (2, 3, 4)];
    collected(&events, 9)
        .write(&mut text, 1, |key| format!("cpu{}", key[0]))
        .unwrap();
    let pad = " ".repeat(46);
    assert_eq!(
        text,
        format!(
            "  cpu2{pad}{:>17}\n  cpu3{pad}{:>17}\n  cpu1{pad}{:>17}\n",
            2, 4, 5
        )
    );
}

/// The charts of the three distributions, with the empty buckets beside the outermost.
#[test]
fn printed_charts() {
    let head = format!(
        "  {:<50}\n{:>16}  ------------- Distribution ------------- count    \n",
        "key 7", "value"
    );
    let row = |label: &str, columns: usize, count: u64| {
        format!("{label:>16} |{:<40} {count:<9}\n", "@".repeat(columns))
    };
    let values = [-3, 0, 1, 1, 5, 5, 5, 5, 5, 5];
    assert_eq!(
        printed(6, &values),
        head.clone()
            + &row("-4", 0, 0)
            + &row("-2", 4, 1)
            + &row("-1", 0, 0)
            + &row("0", 4, 1)
            + &row("1", 8, 2)
            + &row("2", 0, 0)
            + &row("4", 24, 6)
            + &row("8", 0, 0)
            + "\n"
    );
    assert_eq!(
        printed(7, &[-51, -50, 3, 100, 100]),
        head.clone()
            + &row("< -50", 8, 1)
            + &row("-50", 8, 1)
            + &row("-40", 0, 0)
            + &row("-30", 0, 0)
            + &row("-20", 0, 0)
            + &row("-10", 0, 0)
            + &row("0", 8, 1)
            + &["10", "20", "30", "40", "50", "60", "70", "80", "90"]
                .map(|label| row(label, 0, 0))
                .concat()
            + &row(">= 100", 16, 2)
            + "\n"
    );
    assert_eq!(
        printed(8, &[0, 9, 10, 14, 10_000]),
        head + &row("< 1", 8, 1)
            + &["1", "2", "3", "4", "5", "6", "7", "8"]
                .map(|label| row(label, 0, 0))
                .concat()
            + &row("9", 8, 1)
            + &row("10", 16, 2)
            + &(3..20)
                .map(|step| row(&(5 * step).to_string(), 0, 0))
                .collect::<String>()
            + &(2..20)
                .map(|step| row(&(50 * step).to_string(), 0, 0))
                .collect::<String>()
            + &(2..20)
                .map(|step| row(&(500 * step).to_string(), 0, 0))
                .collect::<String>()
            + &row(">= 10000", 8, 1)
            + "\n"
    );
}
