package parse

// A FieldID identifies a well-known field, for lookups that do not compare names.
type FieldID uint8

// The well-known fields. FieldUnknown stands for every other name.
const (
	FieldUnknown FieldID = iota
	FieldAccept
	FieldAcceptCharset
	FieldAcceptEncoding
	FieldAcceptLanguage
	FieldAuthorization
	FieldCacheControl
	FieldConnection
	FieldContentEncoding
	FieldContentLength
	FieldContentType
	FieldCookie
	FieldDate
	FieldDNT
	FieldExpect
	FieldForwarded
	FieldFrom
	FieldHost
	FieldIfMatch
	FieldIfModifiedSince
	FieldIfNoneMatch
	FieldIfRange
	FieldIfUnmodifiedSince
	FieldKeepAlive
	FieldMaxForwards
	FieldOrigin
	FieldPragma
	FieldPriority
	FieldProxyAuthorization
	FieldProxyConnection
	FieldRange
	FieldReferer
	FieldSecFetchDest
	FieldSecFetchMode
	FieldSecFetchSite
	FieldSecFetchUser
	FieldSecWebSocketKey
	FieldSecWebSocketProtocol
	FieldSecWebSocketVersion
	FieldTE
	FieldTraceparent
	FieldTracestate
	FieldTrailer
	FieldTransferEncoding
	FieldUpgrade
	FieldUpgradeInsecureRequests
	FieldUserAgent
	FieldVia
	FieldXForwardedFor
	FieldXForwardedHost
	FieldXForwardedProto
	FieldXRequestID

	numFieldIDs = iota
)

var fieldNames = [numFieldIDs]string{
	FieldUnknown:                 "",
	FieldAccept:                  "Accept",
	FieldAcceptCharset:           "Accept-Charset",
	FieldAcceptEncoding:          "Accept-Encoding",
	FieldAcceptLanguage:          "Accept-Language",
	FieldAuthorization:           "Authorization",
	FieldCacheControl:            "Cache-Control",
	FieldConnection:              "Connection",
	FieldContentEncoding:         "Content-Encoding",
	FieldContentLength:           "Content-Length",
	FieldContentType:             "Content-Type",
	FieldCookie:                  "Cookie",
	FieldDate:                    "Date",
	FieldDNT:                     "DNT",
	FieldExpect:                  "Expect",
	FieldForwarded:               "Forwarded",
	FieldFrom:                    "From",
	FieldHost:                    "Host",
	FieldIfMatch:                 "If-Match",
	FieldIfModifiedSince:         "If-Modified-Since",
	FieldIfNoneMatch:             "If-None-Match",
	FieldIfRange:                 "If-Range",
	FieldIfUnmodifiedSince:       "If-Unmodified-Since",
	FieldKeepAlive:               "Keep-Alive",
	FieldMaxForwards:             "Max-Forwards",
	FieldOrigin:                  "Origin",
	FieldPragma:                  "Pragma",
	FieldPriority:                "Priority",
	FieldProxyAuthorization:      "Proxy-Authorization",
	FieldProxyConnection:         "Proxy-Connection",
	FieldRange:                   "Range",
	FieldReferer:                 "Referer",
	FieldSecFetchDest:            "Sec-Fetch-Dest",
	FieldSecFetchMode:            "Sec-Fetch-Mode",
	FieldSecFetchSite:            "Sec-Fetch-Site",
	FieldSecFetchUser:            "Sec-Fetch-User",
	FieldSecWebSocketKey:         "Sec-WebSocket-Key",
	FieldSecWebSocketProtocol:    "Sec-WebSocket-Protocol",
	FieldSecWebSocketVersion:     "Sec-WebSocket-Version",
	FieldTE:                      "TE",
	FieldTraceparent:             "traceparent",
	FieldTracestate:              "tracestate",
	FieldTrailer:                 "Trailer",
	FieldTransferEncoding:        "Transfer-Encoding",
	FieldUpgrade:                 "Upgrade",
	FieldUpgradeInsecureRequests: "Upgrade-Insecure-Requests",
	FieldUserAgent:               "User-Agent",
	FieldVia:                     "Via",
	FieldXForwardedFor:           "X-Forwarded-For",
	FieldXForwardedHost:          "X-Forwarded-Host",
	FieldXForwardedProto:         "X-Forwarded-Proto",
	FieldXRequestID:              "X-Request-Id",
}

// String returns the name as it is usually written; "" for FieldUnknown.
func (id FieldID) String() string {
	if int(id) < len(fieldNames) {
		return fieldNames[id]
	}
	return ""
}

// FieldIDOf returns the id of a name in any case, and FieldUnknown when it is none of the well-known.
func FieldIDOf(name []byte) FieldID {
	if len(name) < 2 {
		return FieldUnknown
	}
	id := fieldSlots[fieldSlot(name)]
	if !equalFold(name, fieldNames[id]) {
		return FieldUnknown
	}
	return id
}

// fieldSlots has each well-known field in the slot of its name, which no two of them share.
var fieldSlots = slotFields()

const fieldSlotBits = 7

// fieldSlot hashes the length of a name and three of its letters in either case.
func fieldSlot(name []byte) uint32 {
	n := len(name)
	key := uint32(n) | uint32(name[0]|0x20)<<8 | uint32(name[n-2]|0x20)<<16 | uint32(name[n/2]|0x20)<<24
	// The factor was found by trying: the first with which no slot is shared.
	return key * 0x3a0e57af >> (32 - fieldSlotBits)
}

func slotFields() (slots [1 << fieldSlotBits]FieldID) {
	for id := FieldUnknown + 1; id < numFieldIDs; id++ {
		slots[fieldSlot([]byte(fieldNames[id]))] = id
	}
	return slots
}
