//! A map of lines of which a copy costs nothing: a radix tree whose nodes are shared until they change.

use crate::step::{Bytes, LINE};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const BITS: u32 = 5;
const FAN: usize = 1 << BITS;

#[derive(Clone, Debug)]
enum Node {
    Inner([Option<Arc<Node>>; FAN]),
    Leaf(Bytes),
}

/// Lines by address, with their bytes.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    root: Option<Arc<Node>>,
    /// Levels of inner nodes above the leaves.
    height: u32,
    len: usize,
    hash: u64,
}

/// Hash of a line's content, independent of its address.
pub(crate) fn hash_bytes(bytes: &Bytes) -> u64 {
    xxh3_64_with_seed(bytes, 0)
}

/// Hash of a line with its content. Sums of it do not depend on an order.
pub(crate) fn hash_line(line: u64, content: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&line.to_le_bytes());
    both[8..].copy_from_slice(&content.to_le_bytes());
    xxh3_64_with_seed(&both, 1)
}

impl Lines {
    /// The bytes of `line`, if it is in the map.
    pub fn get(&self, line: u64) -> Option<&Bytes> {
        let index = line / LINE;
        if self.height * BITS < 64 && index >> (self.height * BITS) != 0 {
            return None;
        }
        let mut node = self.root.as_deref()?;
        let mut level = self.height;
        loop {
            match node {
                Node::Leaf(bytes) => return Some(bytes),
                Node::Inner(children) => {
                    level -= 1;
                    node = children[digit(index, level)].as_deref()?;
                }
            }
        }
    }

    /// Puts a line in, or changes it.
    pub fn insert(&mut self, line: u64, bytes: Bytes) {
        let index = line / LINE;
        let old = self.get(line).map(hash_bytes);
        let new = hash_bytes(&bytes);
        if old == Some(new) && self.get(line) == Some(&bytes) {
            return;
        }
        if let Some(old) = old {
            self.hash = self.hash.wrapping_sub(hash_line(line, old));
        } else {
            self.len += 1;
        }
        self.hash = self.hash.wrapping_add(hash_line(line, new));
        while self.height * BITS < 64 && index >> (self.height * BITS) != 0 {
            if let Some(root) = self.root.take() {
                let mut children: [Option<Arc<Node>>; FAN] = Default::default();
                children[0] = Some(root);
                self.root = Some(Arc::new(Node::Inner(children)));
            }
            self.height += 1;
        }
        put(&mut self.root, self.height, index, bytes);
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Equal for maps with the same lines and bytes.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// All lines by ascending address.
    pub fn to_vec(&self) -> Vec<(u64, Bytes)> {
        let mut list = Vec::with_capacity(self.len);
        if let Some(root) = &self.root {
            walk(root, 0, &mut list);
        }
        list
    }
}

fn digit(index: u64, level: u32) -> usize {
    (index.checked_shr(level * BITS).unwrap_or(0) as usize) & (FAN - 1)
}

fn put(slot: &mut Option<Arc<Node>>, height: u32, index: u64, bytes: Bytes) {
    if height == 0 {
        *slot = Some(Arc::new(Node::Leaf(bytes)));
        return;
    }
    let node = slot.get_or_insert_with(|| Arc::new(Node::Inner(Default::default())));
    match Arc::make_mut(node) {
        Node::Inner(children) => put(
            &mut children[digit(index, height - 1)],
            height - 1,
            index,
            bytes,
        ),
        Node::Leaf(_) => unreachable!("leaves are at height 0"),
    }
}

fn walk(node: &Node, index: u64, list: &mut Vec<(u64, Bytes)>) {
    match node {
        Node::Leaf(bytes) => list.push((index * LINE, *bytes)),
        Node::Inner(children) => {
            for (i, child) in children.iter().enumerate() {
                if let Some(child) = child {
                    walk(child, index << BITS | i as u64, list);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_map_of_lines_is_a_map(
            changes in proptest::collection::vec((0u64..90, any::<bool>(), any::<u8>()), 0..200),
        ) {
            let mut ours = Lines::default();
            let mut theirs = BTreeMap::new();
            let mut copy = None;
            for (i, &(number, high, value)) in changes.iter().enumerate() {
                let line = if high { u64::MAX - 63 - number * 64 } else { number * 64 };
                ours.insert(line, [value; 64]);
                theirs.insert(line, [value; 64]);
                if i == changes.len() / 2 {
                    copy = Some((ours.clone(), theirs.clone()));
                }
            }
            for (ours, theirs) in [Some((ours, theirs)), copy].into_iter().flatten() {
                prop_assert_eq!(ours.len(), theirs.len());
                prop_assert_eq!(ours.to_vec(), theirs.iter().map(|(&l, &b)| (l, b)).collect::<Vec<_>>());
                let mut again = Lines::default();
                for (&line, &bytes) in theirs.iter().rev() {
                    again.insert(line, bytes);
                    prop_assert_eq!(ours.get(line), Some(&bytes));
                }
                prop_assert_eq!(ours.hash(), again.hash());
                prop_assert_eq!(ours.get(91 * 64), None);
            }
        }
    }
}
