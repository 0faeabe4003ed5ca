//go:build !amd64

package parse

const hasAVX2 = false

func classifyAVX2(*[ringBlocks]block, *byte, uint, uint) {}
