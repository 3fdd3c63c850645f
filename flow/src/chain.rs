//! A Markov chain over the blocks of a function.

/// A chain: from each state to others, with probabilities.
///
/// What a state's probabilities lack of 1 leaves, and comes back at state 0. Besides, from each
/// state a share of [`Chain::pull`] goes to where [`Chain::drawn`] says. That share makes the
/// stationary distribution unique.
#[derive(Clone, Debug)]
pub struct Chain {
    /// From each state: to which states, with which probabilities. Their sum is 1 at most.
    pub to: Vec<Vec<(usize, f64)>>,
    /// How much of the pull goes to each state, in any unit.
    pub drawn: Vec<f64>,
    /// The share of each state's flow that follows [`Chain::drawn`].
    pub pull: f64,
}

/// Even without a pull there is a path from every state back to the first: of this probability.
const LEAST_PULL: f64 = 1e-9;

impl Chain {
    /// The probabilities of the states in the long run. They are finite, none is negative, and
    /// their sum is 1 (0 of a chain without states).
    #[must_use]
    pub fn stationary(&self) -> Vec<f64> {
        let links = self.links();
        let exact = crate::solve::eliminate(links.clone(), crate::solve::PATIENCE);
        let mut found = exact.unwrap_or_else(|| crate::solve::sweep(&links));
        // The last state is the pull's own.
        found.truncate(self.to.len());
        let sum: f64 = found.iter().sum();
        if sum > 0.0 && sum.is_finite() {
            for one in &mut found {
                *one /= sum;
            }
        }
        found
    }

    /// The chain as ways between states, with one state more that all states lead to and that leads
    /// to where the flow is drawn.
    fn links(&self) -> Vec<Vec<(usize, f64)>> {
        let states = self.to.len();
        let pull = sound(self.pull).clamp(LEAST_PULL, 1.0);
        let mut links: Vec<Vec<(usize, f64)>> = self
            .to
            .iter()
            .map(|to| {
                let known = to.iter().filter(|(state, _)| *state < states);
                let known: Vec<(usize, f64)> =
                    known.map(|(state, p)| (*state, sound(*p))).collect();
                let sum: f64 = known.iter().map(|(_, p)| p).sum();
                let scale = (1.0 - pull) / sum.max(1.0);
                let mut ways: Vec<(usize, f64)> = known
                    .into_iter()
                    .map(|(state, p)| (state, p * scale))
                    .collect();
                let leaves = (1.0 - sum).max(0.0) * (1.0 - pull);
                ways.push((0, leaves));
                ways.push((states, pull));
                ways
            })
            .collect();
        let drawn = self.drawn.iter().take(states).map(|one| sound(*one));
        let sum: f64 = drawn.clone().sum();
        let mut from_pull: Vec<(usize, f64)> = match sum > 0.0 && sum.is_finite() {
            true => drawn
                .map(|one| one / sum * (1.0 - LEAST_PULL))
                .enumerate()
                .collect(),
            false => Vec::new(),
        };
        if states > 0 {
            let rest = if from_pull.is_empty() {
                1.0
            } else {
                LEAST_PULL
            };
            from_pull.push((0, rest));
        }
        links.push(from_pull);
        links
    }
}

/// A number that is one, and not negative.
fn sound(number: f64) -> f64 {
    if number.is_finite() {
        number.max(0.0)
    } else {
        0.0
    }
}
