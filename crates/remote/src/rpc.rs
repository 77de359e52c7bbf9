//! The JSON-RPC 2.0 envelope (specification of 2013-01-04): requests, batches, responses.

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

/// The message is not JSON.
pub const PARSE: i64 = -32700;
/// The message is not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const NO_METHOD: i64 = -32601;
/// The parameters are not those of the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The machine cannot do it; the message says why.
pub const REFUSED: i64 = -32000;

/// Most requests in a batch.
pub const MAX_BATCH: usize = 64;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// One of the codes of this module.
    pub code: i64,
    /// For human readers.
    pub message: String,
}

impl RpcError {
    /// An error with a code and a message.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError {
            code,
            message: message.into(),
        }
    }

    /// The error of a request that the machine cannot carry out.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(REFUSED, message)
    }
}

/// A request that has been taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The parameters; an empty object if none were given.
    pub params: Value,
    /// Identifies the answer; notifications have none and get no answer.
    pub id: Option<Value>,
}

/// Answers one message; `None` if it needs no answer. `answer` is called for each request in it, in
/// order.
pub fn respond(
    message: &[u8],
    mut answer: impl FnMut(&Request) -> Result<Value, RpcError>,
) -> Option<Value> {
    let value: Value = match serde_json::from_slice(message) {
        Ok(v) => v,
        Err(e) => {
            let text = format!("the message is no JSON: {e}");
            return Some(failure(Value::Null, &RpcError::new(PARSE, text)));
        }
    };
    let Value::Array(batch) = value else {
        return one(value, &mut answer);
    };
    if batch.is_empty() || batch.len() > MAX_BATCH {
        let text = format!("a batch has 1 to {MAX_BATCH} requests, not {}", batch.len());
        let e = RpcError::new(INVALID_REQUEST, text);
        return Some(failure(Value::Null, &e));
    }
    let all = batch.into_iter().filter_map(|v| one(v, &mut answer));
    let all: Vec<Value> = all.collect();
    (!all.is_empty()).then_some(Value::Array(all))
}

fn one(
    value: Value,
    answer: &mut impl FnMut(&Request) -> Result<Value, RpcError>,
) -> Option<Value> {
    let request = match take_apart(value) {
        Ok(r) => r,
        Err((id, e)) => return Some(failure(id, &e)),
    };
    let result = answer(&request);
    let id = request.id?;
    Some(match result {
        Ok(result) => json!({"jsonrpc": "2.0", "result": result, "id": id}),
        Err(e) => failure(id, &e),
    })
}

fn take_apart(value: Value) -> Result<Request, (Value, RpcError)> {
    let wrong = |id: Value, text: &str| Err((id, RpcError::new(INVALID_REQUEST, text)));
    let Value::Object(mut fields) = value else {
        return wrong(Value::Null, "a request is an object");
    };
    let id = fields.remove("id");
    let named = match &id {
        None | Some(Value::Null | Value::String(_) | Value::Number(_)) => {
            id.clone().unwrap_or_default()
        }
        Some(_) => return wrong(Value::Null, "`id` is a string, a number or null"),
    };
    if fields.remove("jsonrpc") != Some(json!("2.0")) {
        return wrong(named, "`jsonrpc` has to be \"2.0\"");
    }
    let Some(Value::String(method)) = fields.remove("method") else {
        return wrong(named, "`method` has to be a string");
    };
    let params = match fields.remove("params") {
        None => json!({}),
        Some(p @ (Value::Object(_) | Value::Array(_))) => p,
        Some(_) => return wrong(named, "`params` is an object"),
    };
    if let Some(key) = fields.keys().next() {
        return wrong(named, &format!("a request has no field `{key}`"));
    }
    Ok(Request { method, params, id })
}

/// An error response.
pub fn failure(id: Value, e: &RpcError) -> Value {
    json!({"jsonrpc": "2.0", "error": e, "id": id})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Option<Value> {
        respond(text.as_bytes(), |r| match r.method.as_str() {
            "echo" => Ok(r.params.clone()),
            _ => Err(RpcError::new(NO_METHOD, "no")),
        })
    }

    fn code(text: &str) -> i64 {
        ask(text).expect("an answer")["error"]["code"]
            .as_i64()
            .expect("a code")
    }

    #[test]
    fn requests_are_answered_under_their_names() {
        for id in ["7", "\"x\"", "null", "1.5"] {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"echo","params":[1],"id":{id}}}"#);
            let id: Value = serde_json::from_str(id).unwrap();
            let want = json!({"jsonrpc": "2.0", "result": [1], "id": id});
            assert_eq!(ask(&text), Some(want));
        }
        let notification = r#"{"jsonrpc":"2.0","method":"echo"}"#;
        assert_eq!(ask(notification), None);
    }

    #[test]
    fn what_is_wrong_has_the_code_of_the_specification() {
        assert_eq!(code("{"), PARSE);
        assert_eq!(code("\u{0}"), PARSE);
        for text in [
            "1",
            "[]",
            "{}",
            r#"{"jsonrpc":"1.0","method":"echo","id":1}"#,
            r#"{"jsonrpc":"2.0","method":1,"id":1}"#,
            r#"{"jsonrpc":"2.0","method":"echo","params":3,"id":1}"#,
            r#"{"jsonrpc":"2.0","method":"echo","id":[1]}"#,
            r#"{"jsonrpc":"2.0","method":"echo","id":1,"more":1}"#,
        ] {
            assert_eq!(code(text), INVALID_REQUEST, "{text}");
        }
        assert_eq!(code(r#"{"jsonrpc":"2.0","method":"x","id":1}"#), NO_METHOD);
    }

    #[test]
    fn batches_are_answered_in_order_without_notifications() {
        let text = r#"[{"jsonrpc":"2.0","method":"echo","id":1},
            {"jsonrpc":"2.0","method":"echo"}, 5,
            {"jsonrpc":"2.0","method":"x","id":2}]"#;
        let answer = ask(text).unwrap();
        let codes: Vec<_> = answer.as_array().unwrap().iter().collect();
        assert_eq!(codes.len(), 3);
        assert_eq!(codes[0]["result"], json!({}));
        assert_eq!(codes[1]["error"]["code"], INVALID_REQUEST);
        assert_eq!(codes[2]["id"], 2);
        let quiet = r#"[{"jsonrpc":"2.0","method":"echo"}]"#;
        assert_eq!(ask(quiet), None);
        let many = format!("[{}1]", "1,".repeat(MAX_BATCH));
        assert_eq!(code(&many), INVALID_REQUEST);
    }

    proptest::proptest! {
        #[test]
        fn every_answer_names_the_protocol(bytes: Vec<u8>) {
            if let Some(v) = respond(&bytes, |r| Ok(r.params.clone())) {
                assert!(v.is_array() || v["jsonrpc"] == "2.0");
            }
        }
    }
}
