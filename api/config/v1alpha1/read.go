package v1alpha1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// readStrict reads a configuration of one document, JSON or YAML. An unknown field is an
// error, and so is a second document, which would have no effect.
func readStrict(content []byte, into any) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	found := 0
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var value any
		if err := yaml.Unmarshal(document, &value); err != nil {
			return err
		}
		if value == nil { // comments alone
			continue
		}
		if found++; found > 1 {
			return fmt.Errorf("there are several YAML documents, and only one would be read; put everything into one, without a line \"---\" in between")
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			return err
		}
	}
	return nil
}
