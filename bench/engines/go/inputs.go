package main

import (
	"fmt"
	"strings"
)

// An input is one request as every engine gets it. Its target ends with the id of the response it asks for, which is
// replaced in turn, so that a response to another request is noticed.
type input struct {
	name string
	data []byte
	// idAt is where in bytes the id stands.
	idAt int
	// What a reader has to find in bytes.
	method, target string
	fields         []string
	body           []byte
}

var (
	inputGet     = newInput("get", "GET", "/users/42/0", "", "Host: example.com", "Accept: */*", "User-Agent: curl")
	inputPost    = newInput("post", "POST", "/users/42/0", `{"name":"Ada","age":1815}`, postFields...)
	inputFields  = newInput("10-fields", "GET", "/users/42/0", "", tenFields...)
	inputBrowser = newInput("browser", "GET", "/account/orders?page=2&sort=date&view=0", "", browserFields...)
	inputMany    = newInput("64-fields", "GET", "/users/42/0", "", manyFields()...)
	inputLong    = newInput("long-value", "GET", "/users/42/0", "", "Host: example.com", "Cookie: session="+strings.Repeat("a1", 1400))
	inputText    = newInput("text", "GET", "/0", "", "Host: a")
	inputJSON    = newInput("json", "GET", "/j0", "", "Host: a")
)

var postFields = []string{"Host: example.com", "Content-Type: application/json", "Content-Length: 25"}

var tenFields = []string{
	"Host: api.example.com",
	"User-Agent: client/2.31.0",
	"Accept: application/json",
	"Accept-Encoding: gzip, deflate",
	"Accept-Language: en",
	"Authorization: Bearer 5f2b8c1d9e7a4036",
	"X-Request-Id: 7d9f1c52-3f0e",
	"X-Forwarded-For: 203.0.113.7",
	"X-Forwarded-Proto: https",
	"Cache-Control: no-cache",
}

// The shape of what a browser sends when a signed-in user follows a link.
var browserFields = []string{
	"Host: www.example.com",
	"Connection: keep-alive",
	`sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"`,
	"sec-ch-ua-mobile: ?0",
	`sec-ch-ua-platform: "Windows"`,
	"Upgrade-Insecure-Requests: 1",
	"User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
	"Sec-Fetch-Site: same-origin",
	"Sec-Fetch-Mode: navigate",
	"Sec-Fetch-User: ?1",
	"Sec-Fetch-Dest: document",
	"Referer: https://www.example.com/account",
	"Accept-Encoding: gzip, deflate, br, zstd",
	"Accept-Language: en-GB,en;q=0.9",
	"Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=1" +
		"; _ga=GA1.1.1946287350.1760000000; csrftoken=Zk3vQm8sXr1tLw5yBn7cHd2fGj4pKa6e; cart=3f9c; seen=0123456789abcdef0123",
}

func manyFields() []string {
	fields := []string{"Host: example.com"}
	for i := len(fields); i < 64; i++ {
		fields = append(fields, fmt.Sprintf("X-Field-%d: value %d", i, i))
	}
	return fields
}

func newInput(name, method, target, body string, fields ...string) *input {
	head := method + " " + target + " HTTP/1.1\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n"
	return &input{
		name:   name,
		data:   []byte(head + body),
		idAt:   len(method) + len(target),
		method: method,
		target: target,
		fields: fields,
		body:   []byte(body),
	}
}

// to is the same request for another target.
func (in *input) to(target string) *input {
	return newInput(in.name, in.method, target, string(in.body), in.fields...)
}

// batch is the request once for each of the ids from 0 on, in turn.
func (in *input) batch(requests int) []byte {
	var batch []byte
	for id := range requests {
		at := len(batch) + in.idAt
		batch = append(batch, in.data...)
		batch[at] = answerIDs[id%len(answerIDs)]
	}
	return batch
}
