//! Rows of one key made one.

/// Puts rows into the order of their keys, and adds those of one key to the first of them, in the
/// order in which they came.
pub(crate) fn join_equal<T, K: Ord>(
    rows: &mut Vec<T>,
    key: impl Fn(&T) -> K,
    add: impl Fn(&mut T, &T),
) {
    // Rows mostly come in runs that are in order, which a stable sort makes use of.
    rows.sort_by_key(&key);
    rows.dedup_by(|more, sum| {
        let is_same = key(more) == key(sum);
        if is_same {
            add(sum, more);
        }
        is_same
    });
}
