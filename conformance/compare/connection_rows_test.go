package compare

// connectionRows are about what follows a message, and what precedes it.
var connectionRows = []row{
	{
		name:    "connection-close",
		request: getWith("Connection: close\r\n"),
		show:    []string{"Connection"},
		all:     `200 "GET /"; closes`,
	},
	{
		name:    "close-and-keep-alive",
		request: getWith("Connection: keep-alive\r\nConnection: close\r\n"),
		all:     `200 "GET /"; closes`,
	},
	{
		name:      "connection-member-no-token",
		request:   getWith("Connection: a b\r\n"),
		shockwave: `400; closes`,
		says:      "a Connection member is not a token (RFC 9110 section 7.6.1)",
		nethttp:   `200 "GET /"; stays`,
		fasthttp:  `200 "GET /"; stays`,
		why:       "RFC 9110 section 7.6.1: members are tokens.",
	},
	{
		name:    "connection-close-in-a-list",
		request: getWith("Connection: x, close\r\n"),
		all:     `200 "GET /"; closes`,
	},
	{
		name:    "http10",
		request: "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		all:     `200 "GET /"; closes`,
	},
	{
		name:    "http10-keep-alive",
		request: "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
		show:    []string{"Connection"},
		all:     `200 Connection="keep-alive" "GET /"; stays`,
	},
	{
		name:      "pipelined",
		request:   get("/1") + get("/2") + get("/3"),
		responses: 3,
		all:       `200 "GET /1"; 200 "GET /2"; 200 "GET /3"; stays`,
	},
	{
		name:      "pipelined-behind-a-body",
		request:   post("Content-Length: 2\r\n", "hi") + get("/2"),
		responses: 2,
		all:       `200 "POST / body=hi"; 200 "GET /2"; stays`,
	},
	{
		name:      "pipelined-behind-an-unread-body",
		request:   post("Content-Length: 2\r\n", "hi") + get("/2"),
		handler:   ignore,
		responses: 2,
		all:       `200 "ok"; 200 "ok"; stays`,
	},
	{
		name:      "pipelined-behind-close",
		request:   getWith("Connection: close\r\n") + get("/2"),
		responses: 2,
		all:       `200 "GET /"; closes without a response`,
	},
	{
		name:      "empty-line-before",
		request:   "\r\n" + get("/"),
		shockwave: `200 "GET /"; stays`,
		nethttp:   `400; closes`,
		fasthttp:  `200 "GET /"; stays`,
		why:       "RFC 9112 section 2.2: one empty line before a request is ignored.",
	},
	{
		name:      "two-empty-lines-before",
		request:   "\r\n\r\n" + get("/"),
		shockwave: `400; closes`,
		says:      "more than one empty line before the request line (RFC 9112 section 2.2)",
		nethttp:   `400; closes`,
		fasthttp:  `200 "GET /"; stays`,
		why:       "One is ignored, as RFC 9112 section 2.2 asks; more are a fault.",
	},
	{
		name:    "upgrade-ignored",
		request: getWith("Connection: upgrade\r\nUpgrade: websocket\r\n"),
		all:     `200 "GET /"; stays`,
	},
	{
		name:      "http2-preface",
		request:   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		shockwave: `505; closes`,
		says:      "the major version is not 1 (RFC 9110 section 15.6.6)",
		nethttp:   `200 "PRI *"; closes`,
		fasthttp:  `400; closes`,
		why:       "RFC 9110 section 15.6.6: another major version is 505.",
	},
}
