//! The order of images and instructions in a profile, by which reports break ties.

use crate::profile::{Pc, Profile};
use crate::regions::Mapped;

impl Profile {
    /// Has all instructions that were passed over among those of the profile.
    pub fn recall_all(&mut self) {
        let passed_over = self.passed_over.iter_mut().enumerate();
        let places: Vec<(usize, Vec<u64>)> = passed_over
            .map(|(image, addresses)| (image, std::mem::take(addresses)))
            .collect();
        for (image, addresses) in places {
            self.pcs.extend(addresses.into_iter().map(|address| Pc {
                image,
                address,
                bytes: None,
            }));
        }
        // Where rows are passed over, this is the order of all.
        sort_pcs(self, |pc| (pc.image, pc.address));
    }

    /// Has instructions that were passed over among those of the profile: places in images by their
    /// index. Others are left alone.
    pub fn recall(&mut self, places: impl IntoIterator<Item = (usize, u64)>) {
        let before = self.pcs.len();
        for (image, address) in places {
            let Some(of_image) = self.passed_over.get_mut(image) else {
                continue;
            };
            if let Ok(index) = of_image.binary_search(&address) {
                of_image.remove(index);
                self.pcs.push(Pc {
                    image,
                    address,
                    bytes: None,
                });
            }
        }
        if self.pcs.len() > before {
            // Where rows are passed over, this is the order of all.
            sort_pcs(self, |pc| (pc.image, pc.address));
        }
    }
}

/// Puts images into the order of their kinds, paths and identities, and instructions into that of
/// images and addresses: so it does not depend on what else was read.
pub(super) fn sort(profile: &mut Profile) {
    let order = of_images(profile);
    let new_of = inverse(&order);
    let new = |index: usize| new_of.get(index).copied().unwrap_or(index);
    permute(&mut profile.images, &order);
    permute(&mut profile.totals, &order);
    permute(&mut profile.passed_over, &order);
    for pc in &mut profile.pcs {
        pc.image = new(pc.image);
    }
    for region in &mut profile.regions {
        if let Mapped::Image { image, .. } = &mut region.what {
            *image = new(*image);
        }
    }
    for symbol in &mut profile.symbols {
        symbol.image = new(symbol.image);
    }
    profile
        .symbols
        .sort_unstable_by_key(|symbol| (symbol.image, symbol.address));
    sort_pcs(profile, |pc| (pc.image, pc.address));
}

/// The indices of images, in the order of their kinds, paths and identities.
pub(super) fn of_images(profile: &Profile) -> Vec<usize> {
    let mut order: Vec<usize> = (0..profile.images.len()).collect();
    let key = |index: &usize| {
        let image = profile.images.get(*index);
        image.map(|image| (image.kind, &image.path, &image.identity))
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    order
}

/// Puts instructions into the order of their keys.
pub(super) fn sort_pcs<K: Ord>(profile: &mut Profile, key: impl Fn(&Pc) -> K) {
    if profile.pcs.is_sorted_by_key(&key) {
        return;
    }
    let mut order: Vec<(K, usize)> = profile.pcs.iter().map(key).zip(0..).collect();
    order.sort_unstable();
    let order: Vec<usize> = order.into_iter().map(|(_, index)| index).collect();
    let new_of = inverse(&order);
    let new = |index: usize| new_of.get(index).copied().unwrap_or(index);
    permute(&mut profile.pcs, &order);
    for row in &mut profile.cycles {
        (row.pc, row.caller) = (new(row.pc), row.caller.map(new));
    }
    for row in &mut profile.hotlists {
        (row.pc, row.caller) = (new(row.pc), row.caller.map(new));
    }
    for row in &mut profile.branches {
        row.pc = new(row.pc);
    }
    for node in &mut profile.stack_nodes {
        node.pc = new(node.pc);
    }
    for row in &mut profile.calls {
        (row.site, row.callee) = (new(row.site), row.callee.map(new));
    }
}

/// Where each comes that is in this order.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut new_of = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        if let Some(place) = new_of.get_mut(*old) {
            *place = new;
        }
    }
    new_of
}

/// Puts rows into an order that has each of them once.
fn permute<T>(rows: &mut Vec<T>, order: &[usize]) {
    let mut old: Vec<Option<T>> = std::mem::take(rows).into_iter().map(Some).collect();
    let taken = order.iter().filter_map(|index| old.get_mut(*index)?.take());
    rows.extend(taken);
}
