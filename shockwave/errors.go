package shockwave

import "errors"

var (
	// ErrServerClosed is returned by Serve and the other serving methods after
	// Shutdown or Close.
	ErrServerClosed = errors.New("shockwave: server closed")
	// ErrBodyTooLong means that a request body is longer than ReadBody or Limits.Body
	// allows; respond with 413.
	ErrBodyTooLong = errors.New("shockwave: body exceeds limit")
	// ErrTimeout means that the client was slower than Timeouts allow.
	ErrTimeout = errors.New("shockwave: client too slow")
	// ErrClientGone is the cause of a Context that ended because the client
	// closed its connection.
	ErrClientGone = errors.New("shockwave: client closed the connection")
	// ErrBadField means that a field name is not a token, or that a value contains
	// CR, LF, NUL or another control byte; nothing was set.
	ErrBadField = errors.New("shockwave: invalid field name or value")
	// ErrReservedField means that the field belongs to the engine:
	// Transfer-Encoding, or Connection with anything but close and upgrade.
	ErrReservedField = errors.New("shockwave: field is set by the engine")
	// ErrFieldsTooLong means that the fields of a response exceed
	// Limits.ResponseFields.
	ErrFieldsTooLong = errors.New("shockwave: response fields exceed limit")
	// ErrBadStatus means that the call cannot send this status.
	ErrBadStatus = errors.New("shockwave: invalid status")
	// ErrHeadSent means that the response's head has been sent and cannot change.
	ErrHeadSent = errors.New("shockwave: head already sent")
	// ErrBodyBegun means that something was already written, so that Send cannot send
	// a whole response; Error can still replace it.
	ErrBodyBegun = errors.New("shockwave: body already begun")
	// ErrResponseComplete means that the response is complete and accepts no more
	// bytes.
	ErrResponseComplete = errors.New("shockwave: response already complete")
	// ErrContentLength means that a write exceeds the Content-Length that the handler
	// set; nothing of it was written.
	ErrContentLength = errors.New("shockwave: body longer than its Content-Length")
	// ErrNoBody means that a response with this status has no body (204, 304).
	ErrNoBody = errors.New("shockwave: a response with this status has no body")
	// ErrHijacked means that the connection belongs to the caller of Hijack.
	ErrHijacked = errors.New("shockwave: connection was hijacked")
	// ErrInterim means that the client does not accept interim responses (HTTP/1.0).
	ErrInterim = errors.New("shockwave: no interim responses in HTTP/1.0")
)

// ErrAbort aborts an exchange when a handler panics with it: the connection is
// closed without a response, and nothing is logged.
var ErrAbort = errors.New("shockwave: exchange aborted")
