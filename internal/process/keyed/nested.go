package keyed

// Set puts a value into one of the maps of a map.
func Set[A, B comparable, V any, M ~map[B]V](all map[A]M, a A, b B, value V) {
	if all[a] == nil {
		all[a] = M{}
	}
	all[a][b] = value
}

// Delete takes a value out of one of the maps of a map, and that one if it is empty then.
func Delete[A, B comparable, V any, M ~map[B]V](all map[A]M, a A, b B) {
	if delete(all[a], b); len(all[a]) == 0 {
		delete(all, a)
	}
}
