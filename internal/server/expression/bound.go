package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

var (
	mu    sync.Mutex
	bound = map[*environment.EnvSet]struct{}{}
)

// Bound bounds all expressions of the process. It is called before the first is compiled, and
// after the version that the server emulates is known. Upstream keeps one environment for
// each version, of which it makes all others, and has no other place to extend them.
func Bound() error {
	mu.Lock()
	defer mu.Unlock()
	shared := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	if _, done := bound[shared]; done {
		return nil
	}
	planner, err := newPlanner(shared.StoredExpressionsEnv())
	if err != nil {
		return err
	}
	extended, err := shared.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{guardFunctions, guardMacros},
		ProgramOptions:    []cel.ProgramOption{cel.CustomDecoratorV2(planner.node), trackCosts(shared.StoredExpressionsEnv())},
	})
	if err != nil {
		return fmt.Errorf("bounding CEL expressions: %w", err)
	}
	*shared = *extended
	bound[shared] = struct{}{}
	return nil
}
