package throttle

import "container/heap"

// queue is a priority queue whose elements know their place in it, so that they can be moved and taken out.
type queue[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(T) *int32 // where an element keeps its index; -1 when it is in no queue
}

func (q *queue[T]) has(x T) bool { return *q.place(x) >= 0 }

// put adds an element, or moves it to where it belongs now.
func (q *queue[T]) put(x T) {
	if i := *q.place(x); i >= 0 {
		heap.Fix(q.heap(), int(i))
	} else {
		heap.Push(q.heap(), x)
	}
}

func (q *queue[T]) remove(x T) {
	if i := *q.place(x); i >= 0 {
		heap.Remove(q.heap(), int(i))
	}
}

// firstBut is the first element that is not x.
func (q *queue[T]) firstBut(x T) (first T, ok bool) {
	i := *q.place(x)
	switch {
	case len(q.items) == 0 || len(q.items) == 1 && i == 0:
		return first, false
	case i != 0:
		return q.items[0], true
	case len(q.items) > 2 && q.less(q.items[2], q.items[1]):
		return q.items[2], true
	}
	return q.items[1], true
}

func (q *queue[T]) heap() *heapOf[T] { return (*heapOf[T])(q) }

// heapOf is a queue as container/heap wants it.
type heapOf[T any] queue[T]

func (h *heapOf[T]) Len() int           { return len(h.items) }
func (h *heapOf[T]) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

func (h *heapOf[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.place(h.items[i]), *h.place(h.items[j]) = int32(i), int32(j)
}

func (h *heapOf[T]) Push(x any) {
	e := x.(T)
	*h.place(e) = int32(len(h.items))
	h.items = append(h.items, e)
}

func (h *heapOf[T]) Pop() any {
	last := len(h.items) - 1
	e := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	*h.place(e) = -1
	return e
}
