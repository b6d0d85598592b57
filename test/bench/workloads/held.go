package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/test/harness"
)

// noise is how much of what processes hold comes and goes with connections, whatever the number of tenants is.
const noise = 60

// held is how many there are of what no idle tenant may have one more of.
type held struct {
	what  string
	count int64
}

// held asks all processes of the spaces, and for open watches both servers.
func (b *bench) held(ctx context.Context) ([]held, error) {
	syncer, err := b.syncer.footprint(ctx)
	if err != nil {
		return nil, err
	}
	server, err := b.server.Footprint(ctx)
	if err != nil {
		return nil, err
	}
	manager, err := b.managerGoroutines(ctx)
	if err != nil {
		return nil, err
	}
	all := []held{
		{"goroutines of the syncer", syncer.Goroutines}, {"goroutines of the spaces' server", server.Goroutines}, {"goroutines of the manager", manager},
		{"watches of etcd that the spaces' server has", server.Watches},
	}
	for _, of := range []struct {
		what   string
		config *rest.Config
	}{{"watches that are open at the spaces' server", b.server.Config}, {"watches that are open at the host's API server", b.cluster.Config}} {
		open, err := openWatches(ctx, of.config)
		if err != nil {
			return nil, err
		}
		all = append(all, held{of.what, open})
	}
	return all, nil
}

func (b *bench) managerGoroutines(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.managerMetrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	n := harness.Value(metrics, "go_goroutines")
	if err == nil && n < 1 {
		err = fmt.Errorf("the manager does not say how many goroutines it has")
	}
	return n, err
}

// openWatches returns how many watches a server answers now, whoever's they are.
func openWatches(ctx context.Context, config *rest.Config) (open int64, _ error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(metrics) {
		if !bytes.HasPrefix(line, []byte("apiserver_longrunning_requests{")) || !bytes.Contains(line, []byte(`verb="WATCH"`)) {
			continue
		}
		n, err := strconv.ParseFloat(string(line[bytes.LastIndexByte(line, ' ')+1:len(line)-1]), 64)
		if err != nil {
			return 0, err
		}
		open += int64(n)
	}
	if open == 0 {
		return 0, fmt.Errorf("the server does not say how many watches it answers")
	}
	return open, nil
}

// grown returns an error if there is more of anything than before by a tenth of the tenants that came meanwhile, and by
// more than noise.
func grown(before, after []held, tenants int) error {
	var all []string
	for i := range after {
		if more := after[i].count - before[i].count; more > noise && more > int64(tenants)/10 {
			all = append(all, fmt.Sprintf("%s: %d to %d", after[i].what, before[i].count, after[i].count))
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("%d idle tenants are not free: %s", tenants, strings.Join(all, "; "))
	}
	return nil
}
