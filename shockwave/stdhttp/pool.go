package stdhttp

import (
	"bufio"
	"sync"
)

// pieceSize bounds what one read of a body takes on its way between the two worlds.
const pieceSize = 16 << 10

type piece [pieceSize]byte

var pieces = sync.Pool{New: func() any { return new(piece) }}

// responseReaders holds readers of responses that come over an in-memory
// connection.
var responseReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}
