package v1alpha1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// slowNumber is a number that takes long to read as a quantity, such as 1e-1000000000, which takes hours.
var slowNumber = regexp.MustCompile(`^\s*[-+]?([0-9.]*[eE][-+]?[0-9]{4,}|[0-9.]{100,})`)

// checkNumbers refuses what has strings that take long to read as quantities.
func checkNumbers(value any) error {
	switch v := value.(type) {
	case string:
		if slowNumber.MatchString(v) {
			return fmt.Errorf("the number %.40q has an exponent of more than 3 digits, or more than 99 digits; write it with fewer", v)
		}
	case []any:
		for _, element := range v {
			if err := checkNumbers(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, element := range v {
			if err := checkNumbers(element); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

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
		if err := checkNumbers(value); err != nil {
			return err
		}
		asJSON, err := yaml.YAMLToJSON(document)
		if err != nil {
			return err
		}
		if err := v1alpha1.CheckNullLimits(asJSON); err != nil {
			return err
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
