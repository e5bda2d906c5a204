//! Headers that are set on a [`Context`] and on a [`Call`], as on a [`Reply`](crate::Reply).

use std::fmt::Display;

use http::{HeaderName, HeaderValue};

use crate::headers::header;
use crate::{Call, Context, Result};

impl Context {
    /// Sets a header in place of earlier ones of the same name.
    ///
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal) where the name or the value cannot be one of a
    /// header, such as a text with a line feed.
    pub fn set_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.headers_to_set().insert(name, value);
        Ok(())
    }

    /// Adds a header behind earlier ones of the same name.
    ///
    /// # Errors
    /// As of [`set_header`](Self::set_header).
    pub fn append_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.headers_to_set().append(name, value);
        Ok(())
    }

    /// The same with a header, as of [`set_header`](Self::set_header).
    ///
    /// # Errors
    /// As there.
    pub fn with_header<N, V>(mut self, name: N, value: V) -> Result<Self>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        self.set_header(name, value)?;
        Ok(self)
    }
}

impl Call {
    /// Sets a header in place of earlier ones of the same name.
    ///
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal) where the name or the value cannot be one of a
    /// header, such as a text with a line feed.
    pub fn set_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.context.headers_to_set().insert(name, value);
        Ok(())
    }

    /// Adds a header behind earlier ones of the same name.
    ///
    /// # Errors
    /// As of [`set_header`](Self::set_header).
    pub fn append_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.context.headers_to_set().append(name, value);
        Ok(())
    }
}
