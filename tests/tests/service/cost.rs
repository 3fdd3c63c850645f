//! What the service costs, and what it does about that.

use crate::bench::{Bench, Burner, ensure_whole, query};
use crate::common::ensure;
use crate::{TestResult, done};

/// A budget that no rate keeps makes the governor lower the rate. Each flush has what was spent,
/// what might have been, and the rate; weights follow the intervals.
pub(crate) fn lowered() -> TestResult {
    let bench = Bench::new()?;
    let _burners = [Burner::start()?, Burner::start()?];
    let mut service =
        bench.start(&bench.configure("sampling.rate = 4000\ngovernor.budget_percent = 0.01")?)?;
    service.await_line("the rate was lowered")?;
    // Longer than it takes to find out that even that is too dear.
    service.await_flushes(20)?;
    service.stop()?;
    let database = &bench.databases()?[0];
    ensure_whole(database)?;
    let counter = |name: &str| {
        query::<i64>(
            database,
            &format!(
                "SELECT coalesce(sum(value), 0) FROM counter
                 WHERE kind = 'overhead' AND name = '{name}'"
            ),
        )
    };
    let lowered = counter("rate_lowered")?;
    let spent = counter("collector_cpu_ns")? + counter("interrupts_ns")?;
    let budget = counter("budget_ns")?;
    ensure(lowered >= 1 && budget > 0 && spent > budget, || {
        format!("lowered {lowered} times, spent {spent} ns, budget {budget} ns")
    })?;
    // The mean interval asked for and the one that was met, before and after.
    let mean = |order: &str| {
        query::<f64>(
            database,
            &format!(
                "SELECT 1.0 * sum(weight) / sum(samples) FROM cycles WHERE flush =
                   (SELECT flush FROM counter WHERE kind = 'overhead' AND name = 'period_sum'
                    ORDER BY flush {order} LIMIT 1)"
            ),
        )
    };
    let (first, last) = (mean("ASC")?, mean("DESC")?);
    ensure(last > 2.0 * first, || {
        format!("mean interval {first} at first, then {last}")
    })?;
    done()
}
