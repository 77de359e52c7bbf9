// The oldest of a set of machines, one-hot. `older` holds for each machine the machines that were
// accepted before it.
module nvmm_oldest #(
    parameter int MACHINES = 8
) (
    input logic [MACHINES-1:0] from,
    input logic [MACHINES*MACHINES-1:0] older,
    output logic [MACHINES-1:0] oldest
);
  always_comb begin
    for (int i = 0; i < MACHINES; i++) begin
      oldest[i] = from[i] && (from & older[i*MACHINES+:MACHINES]) == '0;
    end
  end
endmodule
