package serializer

import (
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pieceSize is the size of the pieces in which lists are written. Upstream compresses
// answers whose first piece has more than 128 KiB, or that amount to that: a list of
// one piece is compressed if it would be in many.
const pieceSize = 128<<10 + 4<<10

// pieces collects what encoders of lists write some bytes at a time.
type pieces struct {
	delegate io.Writer
	buffer   []byte
}

var piecesPool = sync.Pool{New: func() any { return &pieces{buffer: make([]byte, 0, pieceSize)} }}

// inFewPieces calls encode with a writer that passes on to w what it has got in
// pieces of pieceSize and, unless encode fails, a rest.
//
// A connection whose write has failed may still be about to read the buffer, so that
// it is not used for another answer, which may be another tenant's.
func inFewPieces(w io.Writer, encode func(io.Writer) error) error {
	p := piecesPool.Get().(*pieces)
	p.delegate = w
	if err := encode(p); err != nil {
		return err
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.delegate = nil
	piecesPool.Put(p)
	return nil
}

// Write implements io.Writer.
func (p *pieces) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		if len(p.buffer) == cap(p.buffer) {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
		n := min(len(rest), cap(p.buffer)-len(p.buffer))
		p.buffer = append(p.buffer, rest[:n]...)
		rest = rest[n:]
	}
	return len(data), nil
}

func (p *pieces) flush() error {
	_, err := p.delegate.Write(p.buffer)
	p.buffer = p.buffer[:0]
	return err
}

// protobuf writes lists in few pieces.
type protobuf struct {
	runtime.Serializer
	allocating runtime.EncoderWithAllocator
}

func wrapProtobuf(delegate runtime.Serializer) runtime.Serializer {
	allocating, ok := delegate.(runtime.EncoderWithAllocator)
	if !ok {
		return delegate
	}
	return &protobuf{Serializer: delegate, allocating: allocating}
}

// EncodeWithAllocator implements runtime.EncoderWithAllocator, by which upstream encodes
// answers that it converts.
func (p *protobuf) EncodeWithAllocator(obj runtime.Object, w io.Writer, memory runtime.MemoryAllocator) error {
	if _, ok := obj.(metav1.ListMetaAccessor); !ok {
		return p.allocating.EncodeWithAllocator(obj, w, memory)
	}
	return inFewPieces(w, func(w io.Writer) error { return p.allocating.EncodeWithAllocator(obj, w, memory) })
}

// Encode implements runtime.Encoder, by which upstream encodes what it does not convert.
func (p *protobuf) Encode(obj runtime.Object, w io.Writer) error {
	memory := runtime.AllocatorPool.Get().(*runtime.Allocator)
	defer runtime.AllocatorPool.Put(memory)
	return p.EncodeWithAllocator(obj, w, memory)
}
