//! What a store wants read from the device, in words that any store can use.
//!
//! A [`Token`] says what the bytes will be. Only the store that made it can read it: the driver carries it to the
//! [`Verify`](crate::engine::Verify) of the same store, outside the lock, and back to
//! [`Engine::supply`](crate::engine::Engine::supply). How far it pays to read beside a range ([`Ahead`]) is the store's to say,
//! for it knows what lies there ([`lookahead`](crate::lookahead)).

/// Words of a token: enough for a block's name and a pointer of 16 bytes.
const TOKEN_WORDS: usize = 5;

/// See the module's head. Equal tokens stand for the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token([u64; TOKEN_WORDS]);

impl Token {
    /// For stores: a token that says what they put into it.
    #[must_use]
    pub fn of(words: [u64; TOKEN_WORDS]) -> Self {
        Self(words)
    }

    /// For stores: what [`Token::of`] put in.
    #[must_use]
    pub fn words(&self) -> [u64; TOKEN_WORDS] {
        self.0
    }
}

/// How many bytes beside a range are worth reading with it, because they are likely to be asked for next.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ahead {
    /// Bytes in front of the range.
    pub before_bytes: u32,
    /// Bytes behind the range.
    pub behind_bytes: u32,
}

impl Ahead {
    /// Nothing but the range itself.
    pub const NONE: Self = Self { before_bytes: 0, behind_bytes: 0 };
}

/// Something that a store wants read from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// What it is, for the store that asked.
    pub token: Token,
    /// Where, in bytes on the device.
    pub at_bytes: u64,
    /// How much, in bytes.
    pub len_bytes: u32,
    /// What to read with it.
    pub ahead: Ahead,
}
