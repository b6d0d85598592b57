package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/tenantry/tenantry/test/harness"
)

// report prints the ratios of ours to stock, the first round left out.
func report(results map[string][][2]measurement, plan plan) {
	rounds := 0
	for _, measured := range results {
		rounds = len(measured) - 1
	}
	fmt.Printf("%d rounds, %d requests of each kind, %d lists, %d at once, %d cores, %s. Ratios are those within a round: median (lowest to highest).\n\n",
		rounds, plan.requests, plan.lists, plan.workers, runtime.NumCPU(), runtime.Version())
	fmt.Println("| request | in a space, 1/s | stock, 1/s | throughput ratio | p99 ratio | processor time, µs | stock, µs | ratio |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(results)) {
		var ours, stock, throughput, p99, oursCPU, stockCPU, cpu []float64
		for _, round := range results[name][1:] {
			ours, stock = append(ours, round[0].perSecond), append(stock, round[1].perSecond)
			throughput = append(throughput, round[0].perSecond/round[1].perSecond)
			oursCPU, stockCPU = append(oursCPU, float64(round[0].cpu)/1e3), append(stockCPU, float64(round[1].cpu)/1e3)
			cpu = append(cpu, float64(round[0].cpu)/float64(round[1].cpu))
			p99 = append(p99, float64(round[0].p99)/float64(round[1].p99))
		}
		fmt.Printf("| %s | %.0f | %.0f | %s | %s | %.0f | %.0f | %s |\n",
			name, harness.Median(ours), harness.Median(stock), harness.Spread(throughput), harness.Spread(p99), harness.Median(oursCPU), harness.Median(stockCPU), harness.Spread(cpu))
	}
}
