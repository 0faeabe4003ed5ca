package shockwave

import "errors"

var (
	// ErrServerClosed is what Serve and its like return after Shutdown or Close.
	ErrServerClosed = errors.New("shockwave: server closed")
	// ErrBodyTooLong says that a request body is longer than ReadBody or
	// Limits.Body allows; 413 is the response to give.
	ErrBodyTooLong = errors.New("shockwave: body exceeds limit")
	// ErrTimeout says that the client was slower than a member of Timeouts allows.
	ErrTimeout = errors.New("shockwave: client too slow")
	// ErrClientGone is the cause of a Context that ended because the client
	// closed its connection.
	ErrClientGone = errors.New("shockwave: client closed the connection")
	// ErrBadField says that a field name is not a token, or that a value holds
	// CR, LF, NUL or another control byte; nothing was set.
	ErrBadField = errors.New("shockwave: invalid field name or value")
	// ErrReservedField says that the field belongs to the engine:
	// Transfer-Encoding, or Connection with anything but close and upgrade.
	ErrReservedField = errors.New("shockwave: field is set by the engine")
	// ErrFieldsTooLong says that the fields of a response pass Limits.AnswerFields.
	ErrFieldsTooLong = errors.New("shockwave: answer fields exceed limit")
	// ErrBadStatus says that a status is not one that the call can send.
	ErrBadStatus = errors.New("shockwave: invalid status")
	// ErrHeadSent says that the response's head is on its way and cannot change.
	ErrHeadSent = errors.New("shockwave: head already sent")
	// ErrBodyBegun says that something was written already, so that the response cannot
	// be given as a whole; Error can still replace it.
	ErrBodyBegun = errors.New("shockwave: body already begun")
	// ErrAnswered says that the response is complete and takes no more bytes.
	ErrAnswered = errors.New("shockwave: answer already complete")
	// ErrContentLength says that a write passes the Content-Length which the
	// handler set; nothing of it was written.
	ErrContentLength = errors.New("shockwave: body longer than its Content-Length")
	// ErrNoBody says that a response with this status has no body (204, 304).
	ErrNoBody = errors.New("shockwave: status allows no body")
	// ErrHijacked says that the connection belongs to whoever called Hijack.
	ErrHijacked = errors.New("shockwave: connection was hijacked")
	// ErrInterim says that the client does not take interim responses (HTTP/1.0).
	ErrInterim = errors.New("shockwave: no interim responses in HTTP/1.0")
)

// ErrAbort ends an exchange when a handler panics with it: the connection is
// closed without a response and nothing is logged.
var ErrAbort = errors.New("shockwave: exchange aborted")
