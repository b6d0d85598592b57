// Package audit tests on a running server what its audit log has of each tenant.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const (
	serverPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}`

	// verbose and silent have policies of their own, plain has none.
	verbose tenant.Name = "verbose"
	silent  tenant.Name = "silent"
	plain   tenant.Name = "plain"
)

var (
	tenantry *suite.Environment
	log      string
)

func TestAudit(t *testing.T) {
	suite.Run(t, "Audit")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	log = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.json")
	Expect(os.WriteFile(policy, []byte(serverPolicy), 0o600)).To(Succeed())
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		o.Server.Kube.Audit.PolicyFile, o.Server.Kube.Audit.LogOptions.Path = policy, log
	})
	tenantry.CreateTenants(ctx, verbose, silent, plain)
	Expect(setPolicy(ctx, verbose, `{"rules": [{"level": "RequestResponse"}]}`)).To(Succeed())
	Expect(setPolicy(ctx, silent, `{"rules": [{"level": "None"}]}`)).To(Succeed())
}, NodeTimeout(suite.StartTimeout))

// setPolicy sets the audit policy of a tenant. The next request is logged by it.
func setPolicy(ctx SpecContext, n tenant.Name, policy string) error {
	return tenantry.SetSpec(ctx, n, "auditPolicy", policy)
}

var agents atomic.Int32

// logged returns the events of what a client does that has a name of its own in the
// log, and waits until all is logged.
func logged(ctx SpecContext, config *rest.Config, do func(*kubernetes.Clientset)) []auditv1.Event {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.UserAgent = fmt.Sprintf("audited-%d", agents.Add(1))
	do(suite.Client(config))
	last := tenantry.In(plain, tenantry.Config(plain))
	last.UserAgent = config.UserAgent + "-last"
	Expect(suite.Client(last).RESTClient().Get().AbsPath("/api/v1/namespaces").Do(ctx).Error()).To(Succeed())
	var events []auditv1.Event
	Eventually(func() bool {
		events = nil
		done := false
		for _, event := range read(config.UserAgent) {
			switch event.UserAgent {
			case config.UserAgent:
				events = append(events, event)
			case last.UserAgent:
				done = done || event.Stage == auditv1.StageResponseComplete
			}
		}
		// A request is written at its end, before which it may be answered.
		return done && (len(events) == 0 || events[len(events)-1].Stage == auditv1.StageResponseComplete)
	}).Should(BeTrue())
	return events
}

// read returns the events in the log whose lines have a text.
func read(text string) []auditv1.Event {
	GinkgoHelper()
	file, err := os.Open(log)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	var events []auditv1.Event
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), text) {
			continue
		}
		var event auditv1.Event
		if json.Unmarshal(lines.Bytes(), &event) == nil { // or it is still written
			events = append(events, event)
		}
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return events
}
