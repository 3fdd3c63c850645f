//! Aggregations as text, in the form that users of DTrace know.

use std::fmt::{self, Write};

use super::{AggregateFunction, Table};

/// Columns of the bars.
const BAR: usize = 40;

impl Table {
    /// Writes an aggregation: one line per key, or for distributions one chart per key, in rising
    /// order of the number that it comes down to. `key` makes the text of a key.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(
        &self,
        out: &mut impl Write,
        id: u32,
        key: impl Fn(&[u64]) -> String,
    ) -> fmt::Result {
        let Some(aggregation) = self.aggregation(id) else {
            return Ok(());
        };
        let function = aggregation.function;
        let mut entries: Vec<_> = self
            .entries(id)
            .map(|(key, data)| (function.number(data), key, data))
            .collect();
        entries.sort_by_key(|&(number, key, _)| (number, key));
        for (number, words, data) in entries {
            if !words.is_empty() {
                write!(out, "  {:<50}", key(words))?;
            }
            if function.counts(data).is_empty() {
                writeln!(out, " {:>16}", number.unwrap_or_default())?;
            } else {
                if !words.is_empty() {
                    writeln!(out)?;
                }
                chart(out, &function, data)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }
}

/// A row per bucket, from the one before the first that has a count to the one after the last.
fn chart(out: &mut impl Write, function: &AggregateFunction, data: &[u64]) -> fmt::Result {
    writeln!(
        out,
        "{:>16}  ------------- Distribution ------------- {:<9}",
        "value", "count"
    )?;
    let counts = function.counts(data);
    let Some(first) = counts.iter().position(|&count| count > 0) else {
        return Ok(());
    };
    let last = counts.iter().rposition(|&count| count > 0).unwrap_or(first);
    let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
    for (bucket, &count) in counts.iter().enumerate().skip(first.saturating_sub(1)) {
        if bucket > last + 1 {
            break;
        }
        // Rounded to the nearest column; no more than there are.
        let columns = (u128::from(count) * 2 * BAR as u128 + total) / (2 * total);
        let bar = "@".repeat(columns as usize);
        writeln!(
            out,
            "{:>16} |{bar:<BAR$} {count:<9}",
            label(function, bucket, counts.len())
        )?;
    }
    Ok(())
}

fn label(function: &AggregateFunction, bucket: usize, buckets: usize) -> String {
    let (bound, ends) = match function {
        AggregateFunction::Lquantize(linear) => (linear.bound(bucket).to_string(), true),
        AggregateFunction::Llquantize(log_linear) => {
            (log_linear.bound(bucket.max(1)).to_string(), true)
        }
        _ => (super::buckets::power::value(bucket).to_string(), false),
    };
    match bucket {
        0 if ends => format!("< {bound}"),
        last if ends && last + 1 == buckets => format!(">= {bound}"),
        _ => bound,
    }
}
