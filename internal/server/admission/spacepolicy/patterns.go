package spacepolicy

import (
	"fmt"
	"hash/maphash"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Instructions of compiled patterns. Each is tried at each byte of a text.
const (
	maxPattern  = 6_000
	maxPatterns = 48_000
	// maxKept is how many the different patterns of a tenant's definitions may have since the
	// server has started, each counting perPattern more: some 40 MB. Upstream keeps what it
	// has compiled as long as the process lives, whatever becomes of the definition.
	maxKept    = 1_000_000
	perPattern = 50
)

// keep is called for a pattern with a number of instructions.
type keep func(pattern string, instructions int) error

// patterns adds up what the patterns of a schema are when they are compiled.
type patterns struct {
	instructions int
	keep         keep
}

func (p *patterns) check(path *field.Path, schema *apiextensionsv1.JSONSchemaProps) error {
	if schema.Pattern != "" {
		n := bounds.Instructions(schema.Pattern)
		p.instructions += n
		if n > maxPattern || p.instructions > maxPatterns {
			return fmt.Errorf("%s: the pattern has %d instructions when it is compiled, with those before it %d; a space takes definitions with at most %d in one pattern and %d in all: "+
				"repeat less in patterns, and say maxLength instead of {1,1000}", path.Child("pattern"), n, p.instructions, maxPattern, maxPatterns)
		}
		if err := p.keep(schema.Pattern, n); err != nil {
			return fmt.Errorf("%s: %w", path.Child("pattern"), err)
		}
	}
	return eachSchema(path, schema, p.check)
}

// seenPatterns are the patterns of each tenant's definitions since the server has started. It has
// nothing of tenants that write no definitions. The zero value is ready for use.
type seenPatterns struct {
	mu   sync.Mutex
	seed maphash.Seed
	of   map[life]*patternSet
}

// life is that of a tenant.
type life struct {
	name tenant.Name
	uid  types.UID
}

type patternSet struct {
	instructions int
	hashes       map[uint64]struct{}
}

// in returns what keeps the patterns of the definitions of a tenant.
func (s *seenPatterns) in(of life) keep {
	return func(pattern string, instructions int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of == nil {
			s.of, s.seed = make(map[life]*patternSet), maphash.MakeSeed()
		}
		own, ok := s.of[of]
		if !ok {
			own = &patternSet{hashes: make(map[uint64]struct{})}
			s.of[of] = own
		}
		hash := maphash.String(s.seed, pattern)
		if _, known := own.hashes[hash]; known {
			return nil
		}
		if own.instructions+instructions+perPattern > maxKept {
			return fmt.Errorf("the different patterns of this tenant's definitions since the server has started are too many, or too long: "+
				"at most %d instructions, and %d more for each; use patterns that were there before, or ask the platform's administrators, who can restart the server", maxKept, perPattern)
		}
		own.instructions += instructions + perPattern
		own.hashes[hash] = struct{}{}
		return nil
	}
}
