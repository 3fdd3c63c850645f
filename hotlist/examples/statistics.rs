//! Prints the statistics of the hotlist's estimates as the table in the crate's documentation:
//!
//! `cargo run --release -p hotlist --example statistics [-- RUNS [LENGTH]]`

#[path = "../tests/streams/mod.rs"]
mod streams;

use hotlist::{Config, Eviction, Generator, Hotlist, Method};
use streams::{ALL, Source, Stream, ZIPF_VALUES};

/// What was seen over all runs of one stream. Errors are in percent of the stream's length.
struct Figures {
    /// Mean error of the most frequent value's estimate, and its standard error.
    top_bias: f64,
    top_bias_error: f64,
    /// Root of the mean square of the same.
    top_error: f64,
    /// Largest mean error, in size, of any value.
    any_bias: f64,
    /// Runs in which the most frequent value had more than a fifth, and of those the ones in
    /// which it came first.
    dominant: usize,
    dominant_first: usize,
    /// Of the final list.
    mean_threshold: f64,
    concise: usize,
}

fn measure(config: &Config, stream: Stream, runs: usize, length: usize) -> Figures {
    let source = Source::new(stream);
    let mut random = Generator::new(1);
    let mut coins = Generator::new(2);
    let percent = 100.0 / length as f64;
    let mut errors = vec![0.0; ZIPF_VALUES];
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut dominant, mut dominant_first, mut concise, mut thresholds) = (0, 0, 0, 0.0);
    for _ in 0..runs {
        let mut exact = vec![0_u32; ZIPF_VALUES];
        let mut list = Hotlist::new(config);
        for (time, value) in (0..).zip(source.draw(length, &mut random)) {
            list.update(value, time, &mut coins);
            exact[value as usize] += 1;
        }
        let top = (0..ZIPF_VALUES)
            .max_by_key(|&value| exact[value])
            .unwrap_or_default();
        let mut error = -f64::from(exact[top]);
        for tuple in list.tuples() {
            errors[tuple.value as usize] += tuple.estimate();
            if tuple.value == top as u64 {
                error += tuple.estimate();
            }
        }
        for (error, &count) in errors.iter_mut().zip(&exact) {
            *error -= f64::from(count);
        }
        sum += error;
        squares += error * error;
        if exact[top] as usize * 5 > length {
            dominant += 1;
            dominant_first +=
                usize::from(list.tuples().next().is_some_and(|t| t.value == top as u64));
        }
        thresholds += list.threshold();
        concise += usize::from(list.is_concise());
    }
    let n = runs as f64;
    let deviation = (squares / n - (sum / n).powi(2)).max(0.0).sqrt();
    Figures {
        top_bias: sum / n * percent,
        top_bias_error: deviation / n.sqrt() * percent,
        top_error: (squares / n).sqrt() * percent,
        any_bias: errors
            .iter()
            .fold(0.0, |most: f64, error| most.max((error / n).abs()))
            * percent,
        dominant,
        dominant_first,
        mean_threshold: thresholds / n,
        concise,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let (Ok(runs), Ok(length)) = (
        arguments.next().unwrap_or(Ok(10_000)),
        arguments.next().unwrap_or(Ok(10_000)),
    ) else {
        eprintln!("usage: statistics [RUNS [LENGTH]]");
        std::process::exit(2);
    };
    println!("{runs} runs of {length} events; errors in percent of the stream's length\n");
    println!(
        "| stream | bias of the top value | its error (RMS) | largest bias of any value \
         | top listed first | mean 1/p | concise at the end |"
    );
    println!("|---|---|---|---|---|---|---|");
    let by_weight = Config::default()
        .method(Method::Counting)
        .eviction(Eviction::ByWeight);
    for (name, config) in [
        ("", Config::default()),
        (", counting, by weight", by_weight),
    ] {
        for stream in ALL {
            let f = measure(&config, stream, runs.max(1), length.max(1));
            let first = match f.dominant {
                0 => "never > 20 %".to_owned(),
                n => format!("{:.2} % of {n}", 100.0 * f.dominant_first as f64 / n as f64),
            };
            println!(
                "| {stream}{name} | {:+.3} ± {:.3} | {:.2} | {:.3} | {first} | {:.1} | {:.0} % |",
                f.top_bias,
                f.top_bias_error,
                f.top_error,
                f.any_bias,
                f.mean_threshold,
                100.0 * f.concise as f64 / runs.max(1) as f64,
            );
        }
    }
}
