//! The contexts of a hart.

use crate::context::{ContextId, FetchContext};
use crate::hart::Hart;
use crate::trap::status;

impl Hart {
    /// The present context of loads and stores.
    pub(crate) fn data_context(&self) -> ContextId {
        let st = self.state.csr.mstatus;
        ContextId::data(
            self.data_privilege(),
            st & status::SUM != 0,
            st & status::MXR != 0,
        )
    }

    /// The present context of instruction fetches.
    #[inline(always)]
    pub(crate) fn fetch_context(&self) -> FetchContext {
        FetchContext::new(
            self.state.privilege,
            self.state.timed,
            self.state.generation,
        )
    }

    /// The part of a fetch key besides the line.
    #[inline(always)]
    pub(crate) fn fetch_tag(&self) -> u64 {
        ContextId::fetch_tag(self.state.privilege)
    }
}
