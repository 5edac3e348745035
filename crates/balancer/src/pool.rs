//! One balancer's part in a board, which it may share with others.

use std::fmt;
use std::sync::Arc;

use crate::board::Board;
use crate::sync::{AtomicBool, Ordering};

/// Tells the balancers of one board apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId(pub(crate) u64);

/// One balancer, as the board and its entries know it.
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    /// What people call it.
    pub(crate) name: Arc<str>,
    pub(crate) board: Arc<Board>,
    /// Whether too little is ready and health is ignored. Sequentially consistent, with the modes
    /// of the backends: it is read only of those whose health is bad.
    panicking: Panicking,
}

/// Whether a balancer ignores health; the board sets it.
pub(crate) type Panicking = Arc<AtomicBool>;

/// A backend's time in a balancer that shares its health with others, from joining to leaving.
/// The backend itself may well stay open for the others.
#[derive(Debug, Default)]
pub(crate) struct Stay {
    /// Sequentially consistent, as the modes of the backends: set once the snapshot without the
    /// backend is the current one, so that a request that is refused here finds that one.
    over: AtomicBool,
}

impl Pool {
    pub(crate) fn new(id: PoolId, name: Arc<str>, board: Arc<Board>, panicking: Panicking) -> Self {
        Self {
            id,
            name,
            board,
            panicking,
        }
    }

    pub(crate) fn is_panicking(&self) -> bool {
        self.panicking.load(Ordering::SeqCst)
    }

    /// A stay for a backend that joins; `None` where its mode tells all, because no other balancer
    /// can have it.
    pub(crate) fn stay(&self) -> Option<Arc<Stay>> {
        self.board.is_shared.then(Arc::default)
    }
}

impl Stay {
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
