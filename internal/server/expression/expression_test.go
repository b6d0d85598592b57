package expression

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// environments returns those for new and for stored expressions, with variables and with the
// objects of policies that mutate.
func environments(t *testing.T) []*cel.Env {
	t.Helper()
	if err := Bound(); err != nil {
		t.Fatal(err)
	}
	shared := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	extended, err := shared.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("s", cel.StringType), cel.Variable("l", cel.ListType(cel.IntType)), cel.Variable("d", cel.DynType),
			common.ResolverEnvOption(&mutation.DynamicTypeResolver{}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return []*cel.Env{extended.NewExpressionsEnv(), extended.StoredExpressionsEnv()}
}

// evaluate compiles and evaluates like upstream.
func evaluate(t *testing.T, env *cel.Env, expression string, vars map[string]any) (ref.Val, error) {
	t.Helper()
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(compiled, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, err
	}
	v, _, err := program.Eval(vars)
	return v, err
}

func variables(text, elements int) map[string]any {
	list := make([]int64, elements)
	for i := range list {
		list[i] = int64(i)
	}
	return map[string]any{"s": strings.Repeat("a", text), "l": list, "d": []any{strings.Repeat("a", text), map[string]any{"k": "v"}}}
}

// TestBombs evaluates what would take gigabytes, or hours, if it was not refused.
func TestBombs(t *testing.T) {
	const doubled = `.map(a, [a, a])`
	for _, expression := range []string{
		`s.replace('a', s) != ''`,
		`s.replace('', s) != ''`,
		`s.replace('a', s, 100000) != ''`,
		`dyn(s).replace('a', s) != ''`,
		`l.map(x, s).join('') != ''`,
		`s.split('').join(s) != ''`,
		`dyn(l.map(x, s)).join('') != ''`,
		`'%s'.format([l.map(x, s)]) != ''`,
		`'%.1000000f'.format([1.0]) != ''`,
		`s.split('').size() > 0`,
		`s.matches(s)`,
		`s.matches('(a?b?c?d?){100}(a?b?c?d?)x')`,
		`s.substring(0, 100000).matches('(a?b?c?d?){90}x') || s.substring(1, 100001).matches('(a?b?c?d?){90}x') || s.substring(2, 100002).matches('(a?b?c?d?){90}x')`,
		`s.find('(a?b?c?d?){100}(a?b?c?d?)x') == ''`,
		`s.findAll(s).size() > 0`,
		`s.findAll('(a?b?c?d?){100}(a?b?c?d?)x').size() > 0`,
		`s.indexOf(s + 'b') > 0`,
		`s.lastIndexOf('b' + s) > 0`,
		`l.map(x, s) == l.map(x, s)`,
		`l.map(x, s) != l.map(x, s)`,
		`(s + 'b') in l.map(x, s)`,
		`[s]` + strings.Repeat(doubled, 40) + ` == [s]` + strings.Repeat(doubled, 40),
		`[[s]]` + strings.Repeat(`.map(a, a + a)`, 40) + `[0].size() > 0`,
		`l.map(x, l.map(y, s)).size() > 0 && [l.map(x, s)] == [l.map(x, s)]`,
		`[{'a': s}].map(a, {'a': a, 'b': a})` + strings.Repeat(`.map(a, {'a': a, 'b': a})`, 40) + ` == []`,
		`l.map(x, s).max() == ''`,
		`sets.contains(l.map(x, s), [s + 'b'])`,
		`sets.intersects(l.map(x, s), [s + 'b'])`,
		`Object{spec: Object.spec{a: l.map(x, s)}} != Object{}`,
		`l.map(x, Object{metadata: Object.metadata{name: s}}) != []`,
		`JSONPatch{op: 'add', path: '/a', value: l.map(x, s)} != JSONPatch{}`,
		`l.map(x, JSONPatch{op: 'remove', path: s}).size() > 0`,
		`[quantity('1' + s.replace('a', '0'))].map(q, l.map(x, q.add(1))).size() > 0`,
		`quantity('1e1000000000') == quantity('1')`, `isQuantity('1e-1000000000')`,
		`JSONPatch{op: 'add', path: '/a', value: {'cpu': '1e-' + '1000000000'}} != JSONPatch{}`, `JSONPatch{op: 'add', path: '/a', value: '[{"averageValue":"1e-1000"}]'} != JSONPatch{}`,
		`Object{spec: Object.spec{a: ['1e-1000']}} != Object{}`, `Object{metadata: Object.metadata{labels: {'a': '1' + s.replace('a', '0')}}} != Object{}`,
		`[(l + l).map(y, optional.of(y))].map(m, l.map(x, l.map(b, m.unwrapOpt()))).size() > 0`,
		`[url('http://a/?' + s.replace('a', 'a=b&', 9900))].map(u, l.map(x, u.getQuery())).size() > 0`,
		`'a'.matches('x{1000}x{1000}x{1000}')`, `'a'.matches(s.substring(0, 1).replace('a', 'x{1000}x{1000}x{1000}'))`, `'a'.find('x{1000}x{1000}x{1000}') == ''`,
		`l.map(x, s.charAt(x)).size() > 0`,
	} {
		for _, env := range environments(t) {
			if v, err := evaluate(t, env, expression, variables(1_000_000, 5000)); err == nil {
				t.Errorf("%.80s is %v", expression, v)
			}
		}
	}
}

// TestCopies checks that chains of macros that copy what is before them are not parsed.
func TestCopies(t *testing.T) {
	for _, env := range environments(t) {
		for _, macro := range []string{`.optMap(x, x)`, `.optFlatMap(x, optional.of(x))`} {
			if _, issues := env.Compile(`optional.of(1)` + strings.Repeat(macro, 30) + `.hasValue()`); issues.Err() == nil || !strings.Contains(issues.Err().Error(), "use fewer in a row") {
				t.Errorf("%s: %v", macro, issues.Err())
			}
			if v, err := evaluate(t, env, `optional.of(1)`+strings.Repeat(macro, 2)+`.hasValue()`, variables(1, 1)); err != nil || v.Value() != true {
				t.Errorf("two of %s: %v, %v", macro, v, err)
			}
		}
	}
}

// TestNewFunctions are in the environment for stored expressions only.
func TestNewFunctions(t *testing.T) {
	env := environments(t)[1]
	for _, expression := range []string{
		`lists.range(1000000).size() > 0`,
		`l.map(x, l.map(y, y)).flatten().size() > 0`,
		`l.map(x, [s]).distinct().size() > 0`,
		`l.map(x, [s, s]).flatten().sort().size() > 0`,
	} {
		if v, err := evaluate(t, env, expression, variables(1_000_000, 5000)); err == nil {
			t.Errorf("%.80s is %v", expression, v)
		}
	}
	for _, expression := range []string{
		`lists.range(3) == [0, 1, 2]`,
		`[[1], [2, 3]].flatten() == [1, 2, 3]`,
		`[2, 1, 2].distinct() == [2, 1]`,
		`['b', 'a'].sort() == ['a', 'b']`,
		`['bb', 'a'].sortBy(x, x.size()) == ['a', 'bb']`,
	} {
		if v, err := evaluate(t, env, expression, variables(10, 3)); err != nil || v.Value() != true {
			t.Errorf("%s is %v: %v", expression, v, err)
		}
	}
}

// TestLongTexts searches texts as large as objects can be for usual patterns.
func TestLongTexts(t *testing.T) {
	for _, expression := range []string{
		`!s.matches('AKIA[0-9A-Z]{16}')`, `s.find('[0-9]{3}') == ''`, `s.matches('^[a-z]{5}')`, `!s.matches('^-{5}BEGIN [A-Z ]{1,40}-{5}')`,
		`s.findAll('b').size() == 0`, `'%.100f'.format([1.5]).size() == 102`,
	} {
		for _, env := range environments(t) {
			if v, err := evaluate(t, env, expression, variables(1_000_000, 3)); err != nil || v.Value() != true {
				t.Errorf("%s is %v: %v", expression, v, err)
			}
		}
	}
}

// TestMeaning evaluates usual expressions, which mean the same as without bounds.
func TestMeaning(t *testing.T) {
	for _, expression := range []string{
		`s.replace('a', 'b') == 'bbbbbbbbbb'`, `s.replace('a', 'b', 1) == 'baaaaaaaaa'`, `s.replace('x', s, -1) == s`,
		`'a-b'.split('-') == ['a', 'b']`, `'a-b-c'.split('-', 2).join('+') == 'a+b-c'`, `['a', 'b'].join() == 'ab'`,
		`'%s is %.2f%% of %d'.format(['x', 1.5, 3]) == 'x is 1.50% of 3'`, `'%.3e'.format([1000.0]).startsWith('1.000')`,
		`s.matches('^a+$')`, `s.matches('^' + s + '$')`, `s.find('a{3}') == 'aaa'`, `'ab'.findAll('[ab]') == ['a', 'b']`, `'ab'.findAll('[ab]', 1) == ['a']`,
		`s.indexOf('a') == 0`, `s.lastIndexOf('a') == 9`, `s.indexOf('a', 3) == 3`, `[1, 2].indexOf(2) == 1`,
		`l == [0, 1, 2]`, `l != [0, 1]`, `2 in l`, `!('x' in ['y'])`, `'k' in {'k': 1}`, `l + l == [0, 1, 2, 0, 1, 2]`, `1 + 1 == 2`, `'a' + 'b' == 'ab'`,
		`d[0] == s`, `d[1].k == 'v'`, `d + d != d`, `s in d`, `d[1] == {'k': 'v'}`, `d[0].matches('a')`, `(d + d).size() == 4`,
		`l.sum() == 3`, `l.max() == 2`, `l.min() == 0`, `l.isSorted()`, `l.map(x, x * 2) == [0, 2, 4]`, `l.filter(x, x > 0).exists(x, x == 2)`,
		`sets.contains(l, [1])`, `sets.equivalent(l, [2, 1, 0])`, `sets.intersects(l, [5, 2])`,
		`Object{spec: Object.spec{a: 1}} == Object{spec: Object.spec{a: 1}}`, `Object{a: 1} != Object{a: 2}`,
		`[JSONPatch{op: 'add', path: '/a', value: 1}].size() == 1`, `JSONPatch{op: 'add', path: '/a'}.path == '/a'`,
		`JSONPatch{op: 'add', path: '/a', value: {'cpu': '1e-3', 'version': '1e12345'}} != JSONPatch{}`,
	} {
		for _, env := range environments(t) {
			if v, err := evaluate(t, env, expression, variables(10, 3)); err != nil || v.Value() != true {
				t.Errorf("%s is %v: %v", expression, v, err)
			}
		}
	}
}

// TestInstructions checks that the constant patterns of an expression are counted, wherever they are in it and however
// they are written.
func TestInstructions(t *testing.T) {
	environments(t)
	const pattern = 992 // one for each letter, and two
	for text, want := range map[string]int{
		`s.matches("a{990}")`:                                       pattern,
		`matches(s, 'a{990}') || s.matches('''a{990}''')`:           2 * pattern,
		`l.all(x, s.find(r"a{990}") == s)`:                          pattern,
		`s.findAll("\x61{990}", 3).size() > 0`:                      pattern,
		`["".matches("a{990}"), "".matches("a{990}")].exists(b, b)`: 2 * pattern,
		`object.?spec.orValue("").matches("a{990}")`:                pattern,
		`s.matches(string("a{990}")) || s.find(dyn('a{990}')) == s`: 2 * pattern,
		`s.matches(string(b"a{990}"))`:                              pattern,
		`s.matches(s)`:                                              0,
		`s == "matches"`:                                            0,
		`s.matches("a{990}"`:                                        0, // upstream says what is wrong
	} {
		if got := SizeOf(text).Instructions; got != want {
			t.Errorf("%s: %d instructions, want %d", text, got, want)
		}
		if got := SizeOf(text).Instructions; got != want {
			t.Errorf("%s: %d instructions when it is asked for again", text, got)
		}
	}
}

// TestNodes checks that each node counts once, and macros as they are written out.
func TestNodes(t *testing.T) {
	environments(t)
	for text, want := range map[string]int{
		`1`:                           1,
		`[0, 1, 2]`:                   4,
		`[1].all(x, x > 0)`:           12,
		`(s`:                          0,
		`optional.of(1).optMap(y, y)`: 16,
		`optional.of(1).optMap(y, y).optMap(y, y)`: 42, // what the second one is called of is there twice
	} {
		if got := SizeOf(text).Nodes; got != want {
			t.Errorf("%s has %d nodes, want %d", text, got, want)
		}
	}
}

// TestPatternsThatAreMade checks that to compile patterns costs something, whatever text is searched.
func TestPatternsThatAreMade(t *testing.T) {
	for _, env := range environments(t) {
		_, err := evaluate(t, env, `lists.range(10000).all(i, !s.matches("^[ab]{4" + (i < 0 ? "" : "80}$")))`, map[string]any{"s": ""})
		if err == nil || !strings.Contains(err.Error(), "cost limit") {
			t.Errorf("ten thousand: %v", err)
		}
		if _, err := evaluate(t, env, `lists.range(100).all(i, !s.matches("^[ab]{4" + (i < 0 ? "" : "80}$")))`, map[string]any{"s": ""}); err != nil {
			t.Errorf("a hundred: %v", err)
		}
	}
}
