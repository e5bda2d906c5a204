//! How JSON is printed where servers may differ.

/// How JSON is printed; the default is canonical proto JSON, the text that generated code prints.
///
/// ```
/// # mod tidewire { pub mod schema { pub use tidewire_json::JsonStyle; } }
/// use tidewire::schema::JsonStyle;
///
/// // As a page wants it that was written for REST:
/// let style = JsonStyle::default().with_proto_names().with_defaults();
/// # let _ = style;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonStyle {
    pub(crate) proto_names: bool,
    pub(crate) defaults: bool,
    pub(crate) numbers: bool,
    pub(crate) enum_numbers: bool,
}

impl JsonStyle {
    /// Names of fields as in the `.proto` instead of `lowerCamelCase`.
    #[must_use]
    pub const fn with_proto_names(mut self) -> Self {
        self.proto_names = true;
        self
    }

    /// Fields without presence are printed though they have their default value: `0`, `""`, `[]`.
    #[must_use]
    pub const fn with_defaults(mut self) -> Self {
        self.defaults = true;
        self
    }

    /// 64-bit integers are numbers where a double holds them exactly, within ±(2⁵³ − 1).
    #[must_use]
    pub const fn with_int64_as_numbers(mut self) -> Self {
        self.numbers = true;
        self
    }

    /// Enums are numbers instead of names.
    #[must_use]
    pub const fn with_enums_as_numbers(mut self) -> Self {
        self.enum_numbers = true;
        self
    }
}
