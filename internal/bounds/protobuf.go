package bounds

// Protobuf returns an error if a message is nested so deep that to decode it may end the
// process: upstream's decoders call themselves for each level, and Go's stacks have an end.
// Without the types it takes everything for a message that can be one. It reads data once.
func Protobuf(data []byte) error {
	return payloads(data, 2*maxLevels, func(uint64, []byte) error { return nil })
}

// payloads visits what may be a string, bytes or a message in a message, and in each of those,
// with the number of its field,
// on as many levels as are left. It stops at a mistake, as decoders do.
func payloads(message []byte, left int, visit func(field uint64, payload []byte) error) error {
	if left < 0 {
		return objects.levels.exceeded()
	}
	for len(message) > 0 {
		var tag, length uint64
		tag, message = varint(message)
		switch tag & 7 {
		case 0:
			_, message = varint(message)
			continue
		case 1:
			length = 8
		case 5:
			length = 4
		case 2:
			if length, message = varint(message); length > uint64(len(message)) {
				return nil
			}
			if err := visit(tag>>3, message[:length]); err != nil {
				return err
			}
			if err := payloads(message[:length], left-1, visit); err != nil {
				return err
			}
		case 3, 4: // a group begins or ends
		default:
			return nil
		}
		if length > uint64(len(message)) {
			return nil
		}
		message = message[length:]
	}
	return nil
}

// varint returns the number at the beginning of data, and what follows it, nil if there is
// no number. As in generated decoders, bits beyond the 64th do not count.
func varint(data []byte) (uint64, []byte) {
	var n uint64
	for i, b := range data {
		if i == 10 {
			break
		}
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, data[i+1:]
		}
	}
	return 0, nil
}
